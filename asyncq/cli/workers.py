"""`asyncq workers`: see who runs jobs, and take their jobs away from workers that are gone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from asyncq.cli.asking import ask
from asyncq.cli.job_texts import aligned, print_lines, printable
from asyncq.cli.parsing import Commands, Usage, add_command, duration
from asyncq.client import Client
from asyncq.domain.administration import WorkerInfo
from asyncq.domain.job import Job

PURPOSE = """\
List the workers; or take their jobs away from some of them (unlock).

A worker is "live"; "doubted", when its connection has ended and it has a second
to say that it lives; "dead", when the next look of another worker returns its
jobs; "unknown", when it holds jobs and nobody knows it any more. With the lock
"no" (behind a pooler) a death is seen only when the lease is over. "stuck" are
the jobs whose handlers run on although they were cancelled.

unlock frees the jobs of workers at once, by their ids, or of all that were silent
for so long (--silent-for; 4h is the rule of graphile-worker). Live workers do that
by themselves: it is for those who know better, or when no worker runs. Each job
has lost an attempt. A worker that lives after all cancels its jobs as soon as it
hears of it. It prints the ids of the jobs; an id that no worker has is named, and
the exit code is 1."""

EXAMPLES = """\
  asyncq workers
  asyncq workers --json | jq 'select(.state != "live")'
  asyncq workers unlock 17 18
  asyncq workers unlock --silent-for 4h
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "workers", purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("what", metavar="unlock", nargs="?", choices=["unlock"], help="take jobs away from workers")
    parser.add_argument("ids", metavar="ID", nargs="*", help="the workers' ids")
    parser.add_argument(
        "--silent-for", metavar="TIME", type=duration, help="unlock all workers that were silent for so long: 90s, 4h"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line: the workers, or the jobs")


def run(options: argparse.Namespace) -> int:
    """Do what is asked.

    Args:
        options: The command line.

    Returns:
        0; or 1 if not all workers were there that should be unlocked.

    Raises:
        Usage: It was not said which workers.
    """
    if options.what == "unlock":
        return _unlock(options)
    if options.silent_for is not None:
        raise Usage("--silent-for goes with unlock: asyncq workers unlock --silent-for 4h")
    workers = ask(options, lambda client: client.admin.list_workers())
    print_lines([msgspec.json.encode(worker).decode() for worker in workers] if options.json else table(workers))
    return 0


def _unlock(options: argparse.Namespace) -> int:
    if bool(options.ids) == (options.silent_for is not None):
        raise Usage("which workers? Give their ids, or --silent-for 4h")

    async def unlock(client: Client) -> tuple[set[str], list[Job]]:
        workers = await client.admin.list_workers()
        if options.silent_for is None:
            chosen = {*options.ids} & {str(worker.id) for worker in workers}
        else:
            silent_s = options.silent_for.total_seconds()
            # One that has no row was silent for nobody knows how long.
            chosen = {str(one.id) for one in workers if one.silent_s is None or one.silent_s >= silent_s}
        return chosen, await client.admin.force_unlock_workers(chosen)

    chosen, jobs = ask(options, unlock)
    print_lines([msgspec.json.encode(_shown(job)).decode() if options.json else str(job.id) for job in jobs])
    if options.silent_for is not None:
        print(f"{len(chosen)} workers, {len(jobs)} jobs", file=sys.stderr)
        return 0
    if left := sorted({*options.ids} - chosen):
        print(f"not there: {', '.join(map(printable, left))}", file=sys.stderr)
    return 1 if left else 0


def _shown(job: Job) -> dict[str, object]:
    return {"id": job.id, "task": job.task, "state": job.state, "attempts": job.attempts}


def _ids(ids: Sequence[int], most: int = 3) -> str:
    shown = ",".join(map(str, ids[:most]))
    return shown if len(ids) <= most else f"{shown},+{len(ids) - most}"


def table(workers: Sequence[WorkerInfo]) -> list[str]:
    """One line for each worker, below a line of headings."""
    rows = [("id", "state", "host", "pid", "running", "last seen", "lock", "stuck", "tasks")]
    rows += [
        (
            str(one.id),
            one.state,
            printable(one.host or ""),
            str(one.pid or ""),
            str(one.running) if one.concurrency is None else f"{one.running} of {one.concurrency}",
            "" if one.silent_s is None else f"{max(one.silent_s, 0):.0f} s ago",
            "yes" if one.locks else "no",
            _ids(one.stuck),
            printable(", ".join(one.tasks)),
        )
        for one in workers
    ]
    return aligned(rows)

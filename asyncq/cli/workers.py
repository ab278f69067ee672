"""`asyncq workers`: list the workers, and return the jobs of those that are gone."""

import argparse
import sys
from collections.abc import Sequence

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, Usage, add_command, add_group, ask, duration
from asyncq.client import Client
from asyncq.domain.administration import WorkerInfo
from asyncq.domain.job import Job
from asyncq.domain.sentence import printable

LS = """\
Print the workers, a line for each.

A worker is in one of four states:

live     it runs
doubted  its connection has ended; it has one second to prove that it lives
dead     the next check by another worker returns its jobs
unknown  it holds jobs, and its row was removed

With the lock "no" (behind a pooler) a death is noticed only at the end of the
lease. The jobs under "stuck" were cancelled, and their handlers still run.
Under "queues" are the queues and limits whose jobs it takes, by its option
--queues, or "not" and those of --exclude; empty for all."""

UNLOCK = """\
Return the jobs of workers at once, and print the ids of these jobs.

Name the workers by id, or all that were silent for a time (--silent-for; 4h is
the rule of graphile-worker). Live workers do this by themselves, after the
lease.
Use it when no worker runs, or when you know that a worker is gone. Each job
loses an attempt. A worker that still lives cancels these jobs as soon as it
notices. An id that no worker has is named, and the exit code is 1."""

LS_EXAMPLES = """\
  asyncq workers ls
  asyncq workers ls --json | jq 'select(.state != "live")'
"""

UNLOCK_EXAMPLES = """\
  asyncq workers unlock 17 18
  asyncq workers unlock --silent-for 4h
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    examples = LS_EXAMPLES + UNLOCK_EXAMPLES
    below = add_group(
        commands, "workers", "workers", purpose="Look at workers, and return their jobs.", examples=examples
    )
    listing = add_command(below, "ls", _ls, purpose=LS, examples=LS_EXAMPLES)
    listing.add_argument("--json", action="store_true", help="print one JSON object a line: a worker")
    unlock = add_command(below, "unlock", _unlock, purpose=UNLOCK, examples=UNLOCK_EXAMPLES)
    unlock.add_argument("ids", metavar="ID", nargs="*", help="the workers' ids")
    unlock.add_argument(
        "--silent-for", metavar="TIME", type=duration, help="all workers that were silent for this long: 90s, 4h"
    )
    unlock.add_argument("--json", action="store_true", help="print one JSON object a line: a job")


def _ls(options: argparse.Namespace) -> int:
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
            # A worker without a row has no time of its last sign of life: it counts as silent.
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


def _chosen(worker: WorkerInfo) -> str:
    excluded = f"not {', '.join(worker.exclude)}" if worker.exclude else ""
    queues = "" if worker.queues is None else ", ".join(worker.queues) or "none"
    return "; ".join(filter(None, [queues, excluded]))


def table(workers: Sequence[WorkerInfo]) -> list[str]:
    """One line for each worker, below a line of headings."""
    rows = [("id", "state", "host", "pid", "running", "last seen", "lock", "stuck", "queues", "tasks")]
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
            printable(_chosen(one)),
            printable(", ".join(one.tasks)),
        )
        for one in workers
    ]
    return aligned(rows)

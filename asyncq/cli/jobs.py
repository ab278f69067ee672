"""`asyncq jobs`: list jobs, and change them (`jobs_change.py`)."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from asyncq.cli import jobs_change
from asyncq.cli.job_texts import attempts, details, document, ended_document, print_lines, table
from asyncq.cli.parsing import Commands, Usage, add_command, add_group, ask, natural, positive
from asyncq.client import Client
from asyncq.domain.administration import Attempt, check_page
from asyncq.domain.errors import JobNotFound
from asyncq.domain.job import Job
from asyncq.domain.sentence import printable

STATES = ("scheduled", "available", "active", "retryable", "cancelled", "discarded")

SHOW = """\
Print a job: its state, its attempts, its last error, its payload.

Each failed attempt is printed for as long as it is kept, also if the job has
ended. A job that has ended without any is "not found", and the exit code is 1."""

LS = """\
Print a page of jobs, in the order of their ids.

Jobs that have ended are not stored, and not shown. The next page begins after
the last id of this one (--after)."""

COUNTS = """\
Print how many jobs are in each state.

Large tables are estimated from a sample: such figures are marked with "about"."""

EXPLAIN = """\
Print why a job does not run: its time, its queue, its flags, its task.

The rules are those by which workers fetch. It prints all reasons. A job that
waits for nothing is "ready": the next free slot takes it."""

EXAMPLES = """\
  asyncq jobs ls --state discarded
  asyncq jobs explain 42
  asyncq jobs retry 42 43
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    below = add_group(commands, "jobs", "jobs", purpose="List jobs, and change them.", examples=EXAMPLES)
    show = add_command(
        below,
        "show",
        _show,
        purpose=SHOW,
        examples="  asyncq jobs show 42\n  asyncq jobs show 42 --json | jq -r .state\n",
    )
    show.add_argument("id", metavar="ID", type=positive, help="the job's id")
    show.add_argument("--json", action="store_true", help="print one JSON object, with payload and errors in it")
    listing = add_command(
        below,
        "ls",
        _ls,
        purpose=LS,
        examples="  asyncq jobs ls --state discarded --task send_email\n"
        "  asyncq jobs ls --json --state discarded | jq .id\n"
        "  asyncq jobs ls --json --all > jobs.jsonl\n",
    )
    add = listing.add_argument
    add("--state", choices=STATES, help="only jobs in this state")
    add("--task", metavar="NAME", help="only jobs of this task")
    add("--queue", metavar="NAME", help="only jobs of this queue")
    add("--flag", metavar="FLAG", help="only jobs with this flag")
    add("--limit", metavar="N", type=positive, default=50, help="how many at most, up to 1000 (default: 50)")
    add("--after", metavar="ID", type=natural, default=0, help="only jobs with a greater id (default: 0)")
    add("--json", action="store_true", help="print one JSON object a line, with the payload in it")
    add("--all", action="store_true", help="print all jobs, page by page (--limit is the size of a page); needs --json")
    counts = add_command(below, "counts", _counts, purpose=COUNTS, examples="  asyncq jobs counts\n")
    counts.add_argument("--exact", action="store_true", help="count large tables exactly, however long it takes")
    counts.add_argument("--json", action="store_true", help="print one JSON object")
    explain = add_command(below, "explain", _explain, purpose=EXPLAIN, examples="  asyncq jobs explain 42\n")
    explain.add_argument("id", metavar="ID", type=positive, help="the job's id")
    explain.add_argument("--json", action="store_true", help="print one JSON object: job_id, runnable, reasons")
    jobs_change.add_parsers(below)


def _show(options: argparse.Namespace) -> None:
    job, errors = ask(options, partial(_find, options.id))
    if options.json:
        print(document(job, errors) if job else ended_document(options.id, errors))
        return
    print(details(job) if job else f"{'id:':<12}{options.id}\n{'state:':<12}ended")
    if errors:
        print("failed attempts:")
        print_lines(attempts(errors))


async def _find(job_id: int, client: Client) -> tuple[Job | None, Sequence[Attempt]]:
    """Read a job and its failed attempts; raises JobNotFound if there is neither."""
    errors = await client.admin.errors(job_id)
    try:
        return await client.get_job(job_id), errors
    except JobNotFound:
        if not errors:
            raise
    return None, errors


def _ls(options: argparse.Namespace) -> None:
    check_page(options.limit, options.after)
    limit, after = options.limit, options.after
    wanted: dict[str, Any] = {name: getattr(options, name) for name in ("state", "task", "queue", "flag")}
    if options.all:
        if not options.json:
            raise Usage("--all prints a table of unknown width: it needs --json")

        async def print_all(client: Client) -> None:
            async for job in client.admin.iter_jobs(**wanted, page=limit, after=after):
                print(document(job))

        ask(options, print_all)
        return
    jobs = ask(options, lambda client: client.admin.list_jobs(**wanted, limit=limit, after=after))
    if options.json:
        print_lines([document(job) for job in jobs])
        return
    print_lines(table(jobs))
    if len(jobs) == limit:
        print(f"there may be more: --after {jobs[-1].id}", file=sys.stderr)


def _counts(options: argparse.Namespace) -> None:
    counts = ask(options, lambda client: client.admin.counts(exact=options.exact))
    if options.json:
        print(msgspec.json.encode(counts).decode())
        return
    for state in STATES:
        about = "about " if state in counts.estimated else ""
        print(f"{state:<10} {about + format(getattr(counts, state), ','):>16}")


def _explain(options: argparse.Namespace) -> None:
    found = ask(options, lambda client: client.admin.explain(options.id))
    if options.json:
        print(msgspec.json.encode(found).decode())
        return
    print_lines([f"{reason.reason:<16}{printable(reason.detail)}" for reason in found.reasons])

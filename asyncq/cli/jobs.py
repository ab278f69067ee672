"""`asyncq jobs`: list jobs, and change them (`jobs_change.py`)."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from asyncq.cli import jobs_change
from asyncq.cli.failures import FAILED
from asyncq.cli.job_texts import attempts, details, document, ended_table, errors_document, print_lines, steps, table
from asyncq.cli.matching import add_filter, filter_of
from asyncq.cli.parsing import Commands, Usage, add_command, add_group, ask, duration, expiry, given, natural, positive
from asyncq.client import Client
from asyncq.domain.administration import EndedJob
from asyncq.domain.attempt import Attempt
from asyncq.domain.errors import JobNotFound
from asyncq.domain.finding import NOT_ENDED
from asyncq.domain.job import Job
from asyncq.domain.sentence import printable
from asyncq.domain.states import JobState

SHOW = """\
Print a job: its state, its attempts, its limits, its last error, its payload.

A job that has ended is printed for as long as it is kept, with its result. Each
failed attempt is printed too, also if nothing else is known of the job. A job
of which nothing is known is "not found", and the exit code is 1."""

LS = """\
Print a page of jobs, the newest first.

Options choose the jobs. The next page begins behind the last id of this one
(--from).

--ended prints jobs that have ended and are kept, and discarded ones: the newest
first, without payload and result. The next page begins before the last id of
this one (--before)."""

COUNTS = """\
Print how many jobs are in each state.

Large tables are estimated from a sample: such figures are marked with "about".
Jobs that a pause holds back are available; "paused" says how many they are."""

EXPLAIN = """\
Print why a job does not run: its time, its queue, its flags, its task.

The rules are those by which workers fetch. It prints all reasons. A job that
waits for nothing is "ready": the next free slot takes it."""

WAIT = """\
Wait until a job has ended, and print its end as one JSON object.

Its result is in it if the job ended after this command began, or is kept. The
exit code is 0 if it has completed, else 1. A job that is retried has not ended."""

ENDED_LACKS = ("queue", "flag", "key", "has", "error", "due_before", "added_after", "oldest", "all")

EXAMPLES = """\
  asyncq jobs ls --state discarded
  asyncq jobs ls --ended --since 1h
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
        "  asyncq jobs ls --has '{\"user\": 7}' --error timeout --added-after 1h\n"
        "  asyncq jobs ls --json --state discarded | jq .id\n"
        "  asyncq jobs ls --json --all > jobs.jsonl\n"
        "  asyncq jobs ls --ended --state completed --task send_email --since 1h\n",
    )
    add = listing.add_argument
    add_filter(listing, states=(*NOT_ENDED, "completed"))
    add("--oldest", action="store_true", help="the oldest first, in the order of their ids")
    add("--limit", metavar="N", type=positive, default=50, help="how many at most, up to 1000 (default: 50)")
    add("--from", dest="start", metavar="ID", type=natural, help="begin behind this id")
    add("--ended", action="store_true", help="print jobs that have ended and are kept, and discarded ones")
    add("--since", metavar="TIME", type=expiry, help="with --ended: only jobs that ended since: 1h ago, or a time")
    add("--before", metavar="ID", type=positive, help="with --ended: only jobs with a smaller id")
    add("--json", action="store_true", help="print one JSON object a line, with the payload in it")
    add("--all", action="store_true", help="print all jobs, page by page (--limit is the size of a page); needs --json")
    counts = add_command(below, "counts", _counts, purpose=COUNTS, examples="  asyncq jobs counts\n")
    counts.add_argument("--exact", action="store_true", help="count large tables exactly, however long it takes")
    counts.add_argument("--json", action="store_true", help="print one JSON object")
    explain = add_command(below, "explain", _explain, purpose=EXPLAIN, examples="  asyncq jobs explain 42\n")
    explain.add_argument("id", metavar="ID", type=positive, help="the job's id")
    explain.add_argument("--json", action="store_true", help="print one JSON object: job_id, runnable, reasons")
    wait = add_command(below, "wait", _wait, purpose=WAIT, examples="  asyncq jobs wait 42 --timeout 1m\n")
    wait.add_argument("id", metavar="ID", type=positive, help="the job's id")
    wait.add_argument("--timeout", metavar="TIME", type=duration, help="how long at most (default: without end)")
    jobs_change.add_parsers(below)


def _show(options: argparse.Namespace) -> None:
    job, errors = ask(options, partial(_find, options.id))
    if options.json:
        print(document(job, with_errors=True) if job else errors_document(options.id, errors))
        return
    print(details(job) if job else f"{'id:':<12}{options.id}\n{'state:':<12}ended")
    if errors:
        print("failed attempts:")
        print_lines(attempts(errors))
    if job and job.steps:
        print("steps:")
        print_lines(steps(job.steps))


async def _find(job_id: int, client: Client) -> tuple[Job | None, Sequence[Attempt]]:
    """Read a job and its failed attempts; raises JobNotFound if there is neither."""
    try:
        job = await client.get_job(job_id)
    except JobNotFound:
        if errors := await client.admin.errors(job_id):
            return None, errors
        raise
    return job, job.errors


def _ls(options: argparse.Namespace) -> None:
    if options.ended:
        _ls_ended(options)
        return
    if extra := given(options, ("since", "before")) or (["--state completed"] if options.state == "completed" else []):
        raise Usage(f"{', '.join(extra)}: only jobs that have ended have that; add --ended")
    if options.all:
        if not options.json:
            raise Usage("--all prints a table of unknown width: it needs --json")
        ask(options, partial(_print_all, options))
        return
    jobs, left = ask(options, partial(_page, options))
    if options.json:
        print_lines([document(job) for job in jobs])
        return
    print_lines(table(jobs))
    if left is not None:
        print(f"there may be more: --from {left}", file=sys.stderr)


async def _print_all(options: argparse.Namespace, client: Client) -> None:
    which = await filter_of(options, client)
    newest, page = not options.oldest, options.limit
    async for job in client.admin.iter_jobs(which, newest=newest, page=page, start=options.start):
        print(document(job))


async def _page(options: argparse.Namespace, client: Client) -> tuple[list[Job], int | None]:
    """Look further until the page is full; returns where the next one begins."""
    which, found, left = await filter_of(options, client), list[Job](), options.start
    while len(found) < options.limit:
        limit = options.limit - len(found)
        page = await client.admin.find_jobs(which, newest=not options.oldest, limit=limit, start=left)
        found += page.jobs
        if (left := page.next) is None:
            break
    return found, left


def _ls_ended(options: argparse.Namespace) -> None:
    if extra := given(options, ENDED_LACKS):
        raise Usage(f"{', '.join(extra)}: --ended goes with --state, --task, --since, --limit and --before")

    async def read(client: Client) -> list[EndedJob]:
        since: datetime | timedelta | None = options.since
        if isinstance(since, timedelta):
            since = await client.admin.now() - since
        return await client.admin.list_ended_jobs(
            state=options.state, task=options.task, since=since, limit=options.limit, before=options.before
        )

    jobs = ask(options, read)
    print_lines([msgspec.json.encode(job).decode() for job in jobs] if options.json else ended_table(jobs))
    if len(jobs) == options.limit and not options.json:
        print(f"there may be more: --before {jobs[-1].id}", file=sys.stderr)


def _counts(options: argparse.Namespace) -> None:
    counts = ask(options, lambda client: client.admin.counts(exact=options.exact))
    if options.json:
        print(msgspec.json.encode(counts).decode())
        return
    for state in NOT_ENDED:
        about = "about " if state in counts.estimated else ""
        print(f"{state:<10} {about + format(getattr(counts, state), ','):>16}")
        if state == JobState.AVAILABLE and counts.paused:
            print(f"  {'paused':<8} {about + format(counts.paused, ','):>16}")


def _explain(options: argparse.Namespace) -> None:
    found = ask(options, lambda client: client.admin.explain(options.id))
    if options.json:
        print(msgspec.json.encode(found).decode())
        return
    print_lines([f"{reason.reason:<16}{printable(reason.detail)}" for reason in found.reasons])


def _wait(options: argparse.Namespace) -> int:
    ended = ask(options, lambda client: client.wait_for(options.id, timeout=options.timeout))
    result = None if ended.result is None else msgspec.Raw(ended.result.encode())
    print(msgspec.json.encode({**msgspec.structs.asdict(ended), "result": result}).decode())
    return 0 if ended.state == JobState.COMPLETED else FAILED

"""The commands of `asyncq jobs` that change jobs."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from asyncq.cli.job_texts import document, print_lines
from asyncq.cli.matching import MANY, add_change, change_all, chosen_by_filter, has_filter
from asyncq.cli.parsing import Commands, Usage, add_command, ask, duration, given, instant, positive
from asyncq.client import Client
from asyncq.domain.job import Job

SKIPS = f"""

Running jobs and unknown ids are not changed: they are named, and the exit code
is 1.{MANY}"""

RETRY = f"""\
Retry failed and discarded jobs.

They are due at once, with all their attempts, and a worker is woken. The last
error stays until the next one.{SKIPS}"""

CANCEL = f"""\
Cancel jobs: waiting jobs end, running ones are cancelled in their worker.

They are not retried. Discarded jobs and unknown ids are not changed: they are
named, and the exit code is 1.{MANY}"""

COMPLETE = f"""\
End jobs as completed without running them.{SKIPS}"""

DISCARD = f"""\
Discard jobs without running them.

They stay, with their last error, until they are retried or removed.{SKIPS}"""

RESCHEDULE = f"""\
Change when jobs run, their priority, and their attempts.

Options that are not given keep their values. --attempts is the number of failed
attempts: with fewer than --max-attempts a discarded job runs again.{SKIPS}"""

RM = f"""\
Remove the job that has a key, or all jobs that options choose.

A running job cannot be removed: it loses its key, and is not retried. If no job
has the key, the exit code is 1.{MANY} Running jobs are left alone.

With --ended: remove jobs that have ended from the history, by their ids, with
their failed attempts. Jobs of which no history is kept are named, and the exit
code is 1."""

REDACT = """\
Blank the payloads, results and meta of jobs that have ended.

The rest of their history stays. Jobs of which no history is kept are named, and
the exit code is 1."""

# Why a command does not change a job, unless the reason is that it runs.
WHY = {
    "retry": "run, have never failed, or are not there",
    "cancel": "are discarded, or are not there",
}

CHANGES = ("run_at", "priority", "attempts", "max_attempts")


def add_parsers(below: Commands) -> None:
    """Add the commands to the parser of `asyncq jobs`."""
    examples = "  asyncq jobs retry 42 43\n  asyncq jobs retry --state discarded --error timeout --dry-run\n"
    _add(below, "retry", RETRY, examples)
    _add(below, "cancel", CANCEL, "  asyncq jobs cancel 42 43\n")
    _add(below, "complete", COMPLETE, "  asyncq jobs complete 42\n")
    examples = "  asyncq jobs discard 42 --message 'the order was withdrawn'\n"
    discard = _add(below, "discard", DISCARD, examples, "fail")
    discard.add_argument("--message", metavar="TEXT", help="the last error (default: Manually marked as failed)")
    examples = "  asyncq jobs reschedule 42 --in 1h\n  asyncq jobs reschedule 42 43 --now --priority 0\n"
    reschedule = _add(below, "reschedule", RESCHEDULE, examples)
    when = reschedule.add_mutually_exclusive_group()
    when.add_argument("--now", action="store_true", help="due at once")
    when.add_argument("--run-at", metavar="TIME", type=instant, help="not before, such as 2030-01-31T04:00:00Z")
    when.add_argument(
        "--in", dest="after", metavar="TIME", type=duration, help="not before this time has passed: 90s, 5m, 2h"
    )
    reschedule.add_argument("--priority", metavar="N", type=int, help="lower first")
    reschedule.add_argument("--attempts", metavar="N", type=int, help="failed attempts")
    reschedule.add_argument("--max-attempts", metavar="N", type=int, help="attempts in all")
    examples = "  asyncq jobs rm welcome:1\n  asyncq jobs rm --ended 42 43\n"
    removing = add_command(below, "rm", _rm, purpose=RM, examples=examples)
    removing.add_argument("keys", metavar="KEY", nargs="*", help="the job's key; with --ended the ids of ended jobs")
    add_change(removing)
    removing.add_argument("--ended", action="store_true", help="remove jobs that have ended, by their ids")
    removing.add_argument("--json", action="store_true", help="print one JSON object: the job")
    redacting = add_command(below, "redact", _redact, purpose=REDACT, examples="  asyncq jobs redact 42 43\n")
    redacting.add_argument("ids", metavar="ID", nargs="+", type=positive, help="the jobs' ids")


def _add(below: Commands, name: str, purpose: str, examples: str, *aliases: str) -> argparse.ArgumentParser:
    """Add a command that takes ids, or options that choose jobs."""
    parser = add_command(below, name, run, purpose=purpose, examples=examples, aliases=aliases)
    parser.set_defaults(act=name)
    parser.add_argument("ids", metavar="ID", nargs="*", type=positive, help="the jobs' ids")
    add_change(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line: the jobs that were changed")
    return parser


def run(options: argparse.Namespace) -> int:
    """Change jobs; returns 1 if not all jobs were changed."""
    if options.act == "reschedule":
        _check_changes(options)
    if chosen_by_filter(options, options.ids):
        return _change_all(options)
    jobs = _change(options)
    _print(options, jobs)
    left = sorted({*options.ids} - {job.id for job in jobs})
    if left:
        print(f"not changed, since they {WHY.get(options.act, 'run, or are not there')}: ", file=sys.stderr, end="")
        print(*left, sep=", ", file=sys.stderr)
    return 1 if left else 0


def _change(options: argparse.Namespace) -> list[Job]:
    ids: list[int] = options.ids
    match options.act:
        case "retry":
            return ask(options, lambda client: client.admin.retry_jobs(ids))
        case "cancel":
            return ask(options, lambda client: client.admin.cancel_jobs(ids))
        case "complete":
            return ask(options, lambda client: client.admin.complete_jobs(ids))
        case "discard":
            return ask(options, lambda client: client.admin.discard_jobs(ids, options.message))
        case _:
            return _reschedule(options, ids)


def _change_all(options: argparse.Namespace) -> int:
    changes: dict[str, Any] = {}
    after: timedelta | None = None
    if options.act == "discard":
        changes = {"error": options.message}
    elif options.act == "reschedule":
        changes = {name: getattr(options, name) for name in CHANGES}
        after = timedelta(0) if options.now else options.after
    return change_all(options, options.act, changes, after)


def _check_changes(options: argparse.Namespace) -> None:
    if not options.now and options.after is None and not given(options, CHANGES):
        raise Usage("nothing to change: give --now, --run-at, --in, --priority, --attempts or --max-attempts")


def _reschedule(options: argparse.Namespace, ids: list[int]) -> list[Job]:
    async def reschedule(client: Client) -> list[Job]:
        run_at: datetime | None = options.run_at
        after: timedelta | None = timedelta(0) if options.now else options.after
        if after is not None:
            run_at = await client.admin.now() + after
        changes: dict[str, Any] = {name: getattr(options, name) for name in CHANGES} | {"run_at": run_at}
        return await client.admin.reschedule_jobs(ids, **changes)

    return ask(options, reschedule)


def _rm(options: argparse.Namespace) -> int:
    keys: list[str] = options.keys
    if options.ended and has_filter(options):
        raise Usage("--ended goes with ids")
    if not options.ended and chosen_by_filter(options, keys):
        return change_all(options, "remove", {})
    if options.ended:
        if not keys:
            raise Usage("--ended goes with ids")
        if options.json:
            raise Usage("--json with --ended: the removed jobs are gone, and only their ids are printed")
        ids = [_id(key) for key in keys]
        return _print_ids(ids, ask(options, lambda client: client.admin.remove_ended_jobs(ids)))
    if len(keys) > 1:
        raise Usage("one KEY at a time; with --ended several ids")
    job = ask(options, lambda client: client.admin.remove_job(keys[0]))
    if job is None:
        print(f"no job has the key {keys[0]!r}", file=sys.stderr)
        return 1
    if job.locked_by is not None:
        print(f"job {job.id} runs on worker {job.locked_by}: it lost its key, and is not retried", file=sys.stderr)
    _print(options, [job])
    return 0


def _redact(options: argparse.Namespace) -> int:
    ids: list[int] = options.ids
    return _print_ids(ids, ask(options, lambda client: client.admin.redact_ended_jobs(ids)))


def _id(text: str) -> int:
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise Usage(str(error)) from error


def _print_ids(wanted: Sequence[int], changed: Sequence[int]) -> int:
    """Print the ids of the jobs that were changed, and name the others."""
    print_lines([str(job_id) for job_id in changed])
    if left := sorted({*wanted} - {*changed}):
        print("not changed, since nothing is kept of them: ", file=sys.stderr, end="")
        print(*left, sep=", ", file=sys.stderr)
    return 1 if left else 0


def _print(options: argparse.Namespace, jobs: Sequence[Job]) -> None:
    print_lines([document(job) if options.json else str(job.id) for job in jobs])

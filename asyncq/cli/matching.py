"""The filter of `asyncq jobs`, and the change of all jobs that match it, with a preview."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from asyncq.cli.parsing import Usage, ask, expiry
from asyncq.client import Client
from asyncq.domain.finding import MOST_COUNTED, NOT_ENDED, ChangeAction, JobFilter, Matching

FILTER = ("state", "task", "queue", "flag", "key", "has", "error", "due_before", "added_after")

MANY = """

In the place of ids, options choose the jobs, as those of `asyncq jobs ls`. Then
the command says how many match, asks, and goes on in steps of 1,000, each its
own transaction. Jobs that were added since the preview are not changed."""

DONE = {
    "retry": "retried",
    "cancel": "cancelled",
    "complete": "completed",
    "discard": "discarded",
    "remove": "removed",
    "reschedule": "rescheduled",
}


def add_filter(parser: argparse.ArgumentParser, *, states: Sequence[str] = NOT_ENDED) -> None:
    """Add the options that choose jobs."""
    add = parser.add_argument
    add("--state", choices=states, help="only jobs in this state")
    add("--task", metavar="NAME", help="only jobs of this task")
    add("--queue", metavar="NAME", help="only jobs of this queue")
    add("--flag", metavar="FLAG", help="only jobs with this flag")
    add("--key", metavar="KEY", help="only the job with this key")
    add("--has", metavar="JSON", type=_json, help="""only jobs whose payload contains this: '{"user": 7}'""")
    add("--error", metavar="TEXT", help="only jobs whose last error contains this, in any case of letters")
    add("--due-before", metavar="TIME", type=expiry, help="only jobs that were due before: 1h ago, or a time")
    add("--added-after", metavar="TIME", type=expiry, help="only jobs that were added since: 1h ago, or a time")


def add_change(parser: argparse.ArgumentParser) -> None:
    """Add the options of a change of all jobs that match."""
    add_filter(parser)
    parser.add_argument("--dry-run", action="store_true", help="say how many jobs match, and change none")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def has_filter(options: argparse.Namespace) -> bool:
    """Whether any option chooses jobs."""
    return any(getattr(options, name) is not None for name in FILTER)


def chosen_by_filter(options: argparse.Namespace, ids: Sequence[object]) -> bool:
    """Whether options choose the jobs, and not ids; raises Usage unless one of both is given."""
    filtered = has_filter(options)
    if bool(ids) == filtered:
        raise Usage("which jobs? Give their ids, or options that choose them" + (", not both" if filtered else ""))
    if not filtered and (options.dry_run or options.yes):
        raise Usage("--dry-run and --yes go with options that choose jobs, not with ids")
    return filtered


async def filter_of(options: argparse.Namespace, client: Client) -> JobFilter:
    """The filter of a command; spans of time end now, by the server's clock."""
    given: dict[str, Any] = {name: getattr(options, name) for name in FILTER}
    for name in ("due_before", "added_after"):
        if isinstance(given[name], timedelta):
            given[name] = await client.admin.now() - given[name]
    return JobFilter(**given)


def change_all(
    options: argparse.Namespace, action: ChangeAction, changes: dict[str, Any], after: timedelta | None = None
) -> int:
    """Change all jobs that match; returns the exit code. `after` is a time of start, counted from now."""

    async def preview(client: Client) -> tuple[JobFilter, Matching, datetime]:
        which = await filter_of(options, client)
        return which, await client.admin.count_matching(which), await client.admin.now()

    async def change(client: Client) -> int:
        start, changed = None, 0
        while True:
            step = await client.admin.change_matching(which, action, found.up_to, start=start, **changes)
            changed += len(step.ids)
            if (start := step.next) is None:
                return changed

    which, found, now = ask(options, preview)
    if not options.json:
        print(_sentence(found), file=sys.stderr)
    changed = 0
    if found.jobs and not options.dry_run:
        _confirm(options, action)
        if after is not None:
            changes = changes | {"run_at": now + after}
        changed = ask(options, change)
    if options.json:
        print(msgspec.json.encode({"matched": found.jobs, "states": found.states, "changed": changed}).decode())
    elif not options.dry_run:
        print(f"{changed:,} jobs were {DONE[action]}")
    return 0


def _sentence(found: Matching) -> str:
    if not found.jobs:
        return "no job matches"
    number = f"more than {MOST_COUNTED - 1:,}" if found.jobs >= MOST_COUNTED else f"{found.jobs:,}"
    states = ", ".join(f"{jobs:,} {state}" for state, jobs in sorted(found.states.items()))
    return f"{number} jobs match: {states}"


def _confirm(options: argparse.Namespace, action: str) -> None:
    """Ask on the terminal; raises Usage if there is none, or the answer is no."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise Usage("nobody can be asked here: add --yes, or --dry-run")
    print(f"{action} them? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Usage("nothing was changed")


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from error

"""`asyncq cron`: list recurring items, and change them (`cron_change.py`)."""

import argparse
import sys
from datetime import UTC, datetime

from asyncq.cli import cron_change
from asyncq.cli.cron_texts import document, table, written
from asyncq.cli.job_texts import print_lines
from asyncq.cli.parsing import Commands, Usage, add_command, add_group, ask, positive
from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import next_run
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.sentence import printable

LS = """\
Print the recurring items: stored ones, and those in crontabs of workers.

The last column says why an item adds no jobs: it is paused, it cannot be
scheduled, or no live worker has it or knows its task."""

NEXT = """\
Print when items are due next, each in its own time zone.

It prints the times of all items, of one item, or of an expression. An
expression needs no database."""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser of `asyncq`."""
    purpose = "List recurring items, and change them."
    below = add_group(commands, "cron", "recurring items", purpose=purpose, examples="")
    listing = add_command(below, "ls", _ls, purpose=LS, examples="  asyncq cron ls\n  asyncq cron ls --json\n")
    listing.add_argument("--json", action="store_true", help="print one JSON object a line, with the payload in it")
    coming = add_command(
        below,
        "next",
        _next,
        purpose=NEXT,
        examples="  asyncq cron next\n  asyncq cron next send_report --count 20\n"
        "  asyncq cron next --expression '0 8 * * mon-fri' --tz Europe/Berlin\n",
    )
    add = coming.add_argument
    add("item", metavar="ITEM", nargs="?", help="the identifier of an item (default: all items)")
    add("--expression", metavar="EXPRESSION", help="five fields, or a word such as @daily, instead of an item")
    add("--tz", metavar="ZONE", help="the time zone of the expression (default: UTC)")
    add("--dialect", choices=("extended", "crontab"), help="how the expression is written (default: extended)")
    add("--count", metavar="N", type=positive, default=10, help="how many times, at most 1000 (default: 10)")
    cron_change.add_parsers(below)


def _ls(options: argparse.Namespace) -> int:
    items = ask(options, lambda client: client.cron.list_items())
    print_lines([document(item) for item in items] if options.json else table(items))
    return 0


def _next(options: argparse.Namespace) -> int:
    if options.count > 1000:
        raise Usage(f"--count is {options.count}, expected at most 1000")
    if options.expression is None and (options.tz is not None or options.dialect is not None):
        raise Usage("--tz and --dialect belong to --expression: an item has its own")
    now = datetime.now(UTC)
    if options.expression is not None:
        if options.item is not None:
            raise Usage("give either an ITEM or --expression, not both")
        item = CronItem("-", options.expression, tz=options.tz or "UTC", dialect=options.dialect or "extended")
        print_lines([written(at, item.zone) for at in _times(item, now, options.count)])
        return 0
    if options.item is not None:
        return _of_one(ask(options, lambda client: client.cron.get_item(options.item)), now, options.count)
    items = [_item(status) for status in ask(options, lambda client: client.cron.list_items()) if status.next_run]
    slots = [(at, item) for item in items if item is not None for at in _times(item, now, options.count)]
    slots.sort(key=lambda slot: (slot[0], slot[1].identifier))
    print_lines([f"{written(at, item.zone)}  {printable(item.identifier)}" for at, item in slots[: options.count]])
    return 0


def _of_one(status: CronStatus, now: datetime, count: int) -> int:
    item = None if status.problem else _item(status)
    if item is None:
        why = status.problem or "no worker has it any more, or a function says when it is due"
        print(f"{printable(status.identifier)} has no next run: {printable(why)}", file=sys.stderr)
        return 1
    if status.paused_at is not None:
        since = written(status.paused_at, UTC)
        print(f"{printable(status.identifier)} is paused since {since}: these times are skipped", file=sys.stderr)
    print_lines([written(at, item.zone) for at in _times(item, now, count)])
    return 0


def _item(status: CronStatus) -> CronItem | None:
    """The expression of an item, as an item that can be asked for its times."""
    if status.expression is None or status.dialect is None or status.tz is None:
        return None
    identifier = status.identifier
    # H in an expression depends on the identifier.
    return CronItem("-", status.expression, identifier=identifier, tz=status.tz, dialect=status.dialect)


def _times(item: CronItem, now: datetime, count: int) -> list[datetime]:
    times: list[datetime] = []
    after: datetime | None = now
    while after is not None and len(times) < count:
        after = next_run(item, after)
        if after is not None:
            times.append(after)
    return times

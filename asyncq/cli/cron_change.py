"""The commands of `asyncq cron` that change recurring items, or run one."""

from __future__ import annotations

import argparse
import json
from datetime import timedelta
from typing import Any

from asyncq.cli.asking import ask
from asyncq.cli.cron_texts import document
from asyncq.cli.job_texts import printable
from asyncq.cli.parsing import JOB_KEY_MODES, Commands, Usage, add_command
from asyncq.cron import CronChanges
from asyncq.domain.cron.overlap import OVERLAPS
from asyncq.domain.cron.phrase import parse_time_phrase
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.cron.text import parse_crontab

ADD = """\
Store a recurring item: from now on workers that know its task add its jobs.

LINE is a line of a crontab: when, the task, ?options, a {payload}. Workers take
it over within a second, or, without LISTEN, within one poll."""

CHANGE = """\
Change a stored item.

What is not given stays as it is; --unset gives a field its default back.
It makes up for nothing that was due before."""

PAUSE = """\
Pause an item, a stored one or one of a crontab, until it is resumed.

From now on no slot of it becomes a job, whatever is started anew. Jobs that
wait still run."""

RESUME = """\
Resume an item.

What was due during the pause is never made up for."""

RM = """\
Remove a stored item, or forget one that was in a crontab once.

Its jobs stay. One that is in the crontab of a live worker can be paused."""

RUN = """\
Add the job of an item now, and print its id; paused or not.

If the item says so (overlap), the job of its last slot may stand for it."""

# Options of `change`: as they are written, the field of the item, what stands for the value.
TEXTS = (
    ("--expression", "match", "EXPRESSION", "when: five fields, or a word such as @daily"),
    ("--task", "task", "NAME", "which task"),
    ("--tz", "tz", "ZONE", "the time zone in which the expression is meant"),
    ("--queue", "queue", "NAME", "the named queue of its jobs"),
    ("--job-key", "job_key", "KEY", "a key for its jobs"),
)
FIELDS = (
    *(field for _, field, *_ in TEXTS),
    *("payload", "dialect", "fill", "overlap", "max_attempts", "priority", "flags", "job_key_mode"),
)
# Fields that have a default.
UNSET = tuple(name.replace("_", "-") for name in FIELDS if name not in ("match", "task"))


def add_parsers(below: Commands) -> None:
    """Add the commands to the parser of `asyncq cron`."""
    examples = (
        "  asyncq cron add '0 8 * * 1-5 report ?tz=Europe/Berlin {to: \"a@b.c\"}'\n"
        "  asyncq cron add '*/5 * * * * ping' --dialect crontab\n"
    )
    adding = add_command(below, "add", purpose=ADD, examples=examples)
    adding.add_argument("line", metavar="LINE", help="when, the task, ?options, a {payload}")
    dialects = ("extended", "crontab")
    adding.add_argument("--dialect", choices=dialects, default="extended", help="of LINE (default: extended)")
    _as_json(adding)
    examples = "  asyncq cron change send_report --expression '0 9 * * *' --overlap skip\n"
    changing = add_command(below, "change", purpose=CHANGE, examples=examples)
    add = changing.add_argument
    add("item", metavar="ITEM", help="the item's identifier")
    for option, field, value, said in TEXTS:
        add(option, dest=field, metavar=value, help=said)
    add("--payload", metavar="JSON", type=_payload, help="the payload, an object")
    add("--dialect", choices=dialects, help="how the expression is written")
    add("--fill", metavar="TIME", type=_fill, help="how far back missed slots are made up for: 3d12h")
    add("--overlap", choices=OVERLAPS, help="what becomes of a slot while its last job runs")
    add("--max-attempts", metavar="N", type=int, help="attempts in all")
    add("--priority", metavar="N", type=int, help="lower first")
    add("--flag", dest="flags", metavar="FLAG", action="append", help="a flag of its jobs, instead of those it has")
    add("--job-key-mode", choices=JOB_KEY_MODES, help="what the key does")
    add("--unset", metavar="FIELD", action="append", choices=UNSET, help=f"one of {', '.join(UNSET)}")
    _as_json(changing)
    for name, purpose in (("pause", PAUSE), ("resume", RESUME), ("rm", RM), ("run", RUN)):
        parser = add_command(below, name, purpose=purpose, examples=f"  asyncq cron {name} send_report\n")
        parser.add_argument("item", metavar="ITEM", help="the item's identifier")
        _as_json(parser)


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object: what came of it")


def run(options: argparse.Namespace) -> int:
    """Change an item, or run it.

    Args:
        options: The command line.

    Returns:
        0.

    Raises:
        Usage: A change changes nothing, or LINE is not one item.
        InvalidCrontab: It would be no item.
    """
    if options.what == "run":
        added = ask(options, lambda client: client.cron.run(options.item))
        print(json.dumps({"id": added.id, "outcome": added.outcome}) if options.json else added.id)
        return 0
    status = _change(options)
    if options.json:
        print(document(status))
    elif options.what in ("add", "change") and status.next_run is not None:
        print(f"{printable(status.identifier)}: next run {status.next_run:%Y-%m-%d %H:%M} UTC")
    return 0


def _change(options: argparse.Namespace) -> CronStatus:
    match options.what:
        case "add":
            return _add(options)
        case "change":
            changes = _changes(options)
            return ask(options, lambda client: client.cron.change(options.item, **changes))
        case "pause":
            return ask(options, lambda client: client.cron.pause(options.item))
        case "resume":
            return ask(options, lambda client: client.cron.resume(options.item))
        case _:
            return ask(options, lambda client: client.cron.remove(options.item))


def _add(options: argparse.Namespace) -> CronStatus:
    items = parse_crontab(options.line, dialect=options.dialect)
    if len(items) != 1:
        raise Usage(f"LINE has {len(items)} items, expected one, such as '0 8 * * * send_report'")
    return ask(options, lambda client: client.cron.add(items[0]))


def _changes(options: argparse.Namespace) -> CronChanges:
    unset: list[str] = [name.replace("-", "_") for name in options.unset or ()]
    given: dict[str, Any] = {name: value for name in FIELDS if (value := getattr(options, name)) is not None}
    if both := given.keys() & unset:
        raise Usage(f"{min(both).replace('_', '-')} is both given and unset")
    if not given and not unset:
        raise Usage("what is to be changed? See `asyncq cron change --help`")
    changes: Any = {**given, **dict.fromkeys(unset)}
    return changes


def _payload(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _fill(text: str) -> timedelta:
    try:
        return parse_time_phrase(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error

"""The commands of `asyncq cron` that change recurring items, or run one."""

import argparse
import json
from datetime import timedelta
from typing import Any

from asyncq.cli.cron_texts import document
from asyncq.cli.parsing import JOB_KEY_MODES, Commands, Usage, add_command, ask
from asyncq.cron import CronChanges
from asyncq.domain.cron.overlap import OVERLAPS
from asyncq.domain.cron.status import CronStatus
from asyncq.domain.cron.text import parse_crontab
from asyncq.domain.duration import parse_time_phrase
from asyncq.domain.sentence import printable

ADD = """\
Store a recurring item: from now on workers that know its task add its jobs.

LINE is a line of a crontab: when, the task, ?options, a {payload}. Workers
schedule it within a second, or, without LISTEN, within one poll."""

CHANGE = """\
Change a stored item.

Options that are not given keep their values; --unset restores a default.
Slots before the change are not filled."""

PAUSE = """\
Pause a stored item, or one of a crontab, until it is resumed.

From now on its slots become no jobs, also after a restart of a worker. Waiting
jobs still run."""

RESUME = """\
Resume an item.

Slots that were due during the pause are not filled."""

RM = """\
Remove a stored item, or forget one that no crontab has any more.

Its jobs stay. An item in the crontab of a live worker can only be paused."""

RUN = """\
Add the job of an item now, also of a paused one, and print its id.

If the overlap policy of the item says so, the id may be that of the last job."""

# Options of `change`: option, field of the item, placeholder, help.
TEXTS = (
    ("--expression", "match", "EXPRESSION", "when: five fields, or a word such as @daily"),
    ("--task", "task", "NAME", "the task"),
    ("--tz", "tz", "ZONE", "the time zone of the expression"),
    ("--queue", "queue", "NAME", "the queue of its jobs"),
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
    adding = add_command(below, "add", run, purpose=ADD, examples=examples)
    adding.add_argument("line", metavar="LINE", help="when, the task, ?options, a {payload}")
    dialects = ("extended", "crontab")
    adding.add_argument(
        "--dialect", choices=dialects, default="extended", help="the syntax of LINE (default: extended)"
    )
    _as_json(adding)
    examples = "  asyncq cron change send_report --expression '0 9 * * *' --overlap skip\n"
    changing = add_command(below, "change", run, purpose=CHANGE, examples=examples)
    add = changing.add_argument
    add("item", metavar="ITEM", help="the item's identifier")
    for option, field, value, said in TEXTS:
        add(option, dest=field, metavar=value, help=said)
    add("--payload", metavar="JSON", type=_payload, help="the payload, an object")
    add("--dialect", choices=dialects, help="the syntax of the expression")
    add("--fill", metavar="TIME", type=_fill, help="add missed slots of this time back: 3d12h")
    add("--overlap", choices=OVERLAPS, help="what happens to a slot while the last job runs")
    add("--max-attempts", metavar="N", type=int, help="attempts in all")
    add("--priority", metavar="N", type=int, help="lower first")
    add("--flag", dest="flags", metavar="FLAG", action="append", help="a flag of its jobs; replaces the flags it has")
    add("--job-key-mode", choices=JOB_KEY_MODES, help="which fields of a waiting job are kept")
    add("--unset", metavar="FIELD", action="append", choices=UNSET, help=f"one of {', '.join(UNSET)}")
    _as_json(changing)
    for name, purpose in (("pause", PAUSE), ("resume", RESUME), ("rm", RM), ("run", RUN)):
        parser = add_command(below, name, run, purpose=purpose, examples=f"  asyncq cron {name} send_report\n")
        parser.add_argument("item", metavar="ITEM", help="the item's identifier")
        _as_json(parser)


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object: the result")


def run(options: argparse.Namespace) -> int:
    """Change an item, or run it; options that change nothing, or a LINE that is not exactly one item, are refused."""
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
        raise Usage("nothing to change: see `asyncq cron change --help`")
    changes: Any = {**given, **dict.fromkeys(unset)}
    return changes


def _payload(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _fill(text: str) -> timedelta:
    try:
        return parse_time_phrase(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error

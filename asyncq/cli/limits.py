"""`asyncq limits`, `asyncq partitions` and `asyncq limit`: look at limits and their keys, and set their values."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, Usage, add_command, ask, duration, given, natural, positive
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.limit import Rate
from asyncq.domain.limit_info import LimitInfo, PartitionInfo, phrase
from asyncq.domain.sentence import printable

LIMITS = """\
Print the limits, a line for each.

Limits are declared by workers, or set by hand (`asyncq limit`). "now" is what
holds. A queue is listed if its limit was declared or set; other queues run one
job at once."""

PARTITIONS = """\
Print the keys of a limit, a line for each: those with most running jobs first.

"waiting" is counted to 1,000. "why" says why the next job does not start now:

paused          the limit or the key is paused
backed_off      a handler asked that the key waits
rate            as many have started as the rate allows
partition_full  as many run as may run at once"""

LIMIT = """\
Set values of a limit by hand, in place of those that workers declare.

They hold until --unset, whatever is deployed meanwhile. A value that is not
given stays as it is; "none" is no limit. With --key they hold for one key of
the limit. --remove ends a limit that no worker declares any more."""

LIMITS_EXAMPLES = """\
  asyncq limits
  asyncq limits --json | jq 'select(.full > 0)'
"""

PARTITIONS_EXAMPLES = """\
  asyncq partitions tenants
  asyncq partitions tenants --most 1000 --json
"""

LIMIT_EXAMPLES = """\
  asyncq limit tenants --at-once 5 --rate 100/1m
  asyncq limit tenants --key acme --at-once 10 --weight 2
  asyncq limit tenants --unset
  asyncq limit reports --remove
"""

VALUES = ("at_once", "rate", "total", "total_rate", "weight")
NONE = "none"


def add_parser(commands: Commands) -> None:
    """Add the three commands to the parser."""
    listing = add_command(commands, "limits", _limits, purpose=LIMITS, examples=LIMITS_EXAMPLES)
    listing.add_argument("--json", action="store_true", help="print one JSON object a line: a limit")
    keys = add_command(commands, "partitions", _partitions, purpose=PARTITIONS, examples=PARTITIONS_EXAMPLES)
    keys.add_argument("limit", metavar="LIMIT", help="the name of a limit, or of a queue")
    keys.add_argument("--most", metavar="NUMBER", type=positive, default=100, help="how many keys (default: 100)")
    keys.add_argument("--json", action="store_true", help="print one JSON object a line: a key")
    setting = add_command(commands, "limit", _limit, purpose=LIMIT, examples=LIMIT_EXAMPLES)
    setting.add_argument("limit", metavar="LIMIT", help="the name of a limit, or of a queue")
    setting.add_argument("--key", metavar="KEY", help="only for this key of the limit")
    number, rate = partial(_or_none, natural), partial(_or_none, _rate)
    setting.add_argument("--at-once", metavar="NUMBER", type=number, help="how many jobs of each key at once")
    setting.add_argument("--rate", metavar="RATE", type=rate, help="how many jobs of each key may start: 100/1m")
    setting.add_argument("--total", metavar="NUMBER", type=number, help="how many jobs of all keys at once")
    setting.add_argument("--total-rate", metavar="RATE", type=rate, help="how many jobs of all keys may start")
    setting.add_argument("--weight", metavar="NUMBER", type=float, help="how many turns the key gets beside others")
    setting.add_argument("--unset", action="store_true", help="undo what was set: what workers declare holds again")
    setting.add_argument(
        "--remove", action="store_true", help="end it, and all that was set, until a worker declares it again"
    )
    setting.add_argument("--by", metavar="NAME", help="who (default: the role that logs in)")
    setting.add_argument("--json", action="store_true", help="print one JSON object: the limit")


def _limits(options: argparse.Namespace) -> int:
    _print(ask(options, lambda client: client.admin.limits()), as_json=options.json)
    return 0


def _partitions(options: argparse.Namespace) -> int:
    keys = ask(options, lambda client: client.admin.partitions(options.limit, most=options.most))
    print_lines([msgspec.json.encode(one).decode() for one in keys] if options.json else table_of_keys(keys))
    return 0


def _limit(options: argparse.Namespace) -> int:
    chosen = {name: getattr(options, name) for name in VALUES if getattr(options, name) is not None}
    if options.unset + options.remove + bool(chosen) != 1:
        raise Usage("set what? Give --at-once, --rate, --total, --total-rate or --weight; or --unset or --remove alone")
    values: dict[str, Any] = {name: None if value == NONE else value for name, value in chosen.items()}
    if "at_once" in values:
        values["concurrency"] = values.pop("at_once")
    if options.remove:
        shown = _remove(options)
    elif options.unset:
        shown = [ask(options, lambda client: client.admin.unset_limit(options.limit, options.key))]
    elif options.key is None:
        if "weight" in values:
            raise Usage("--weight is that of a key: give --key too")
        shown = [ask(options, lambda client: client.admin.set_limit(options.limit, **values, by=options.by))]
    else:
        shown = _set_key(options, values)
    _print(shown, as_json=options.json)
    return 0


def _remove(options: argparse.Namespace) -> list[LimitInfo]:
    if options.key is not None:
        raise Usage("--remove ends the limit of all keys: leave --key out; --unset undoes what was set for a key")
    before = [one for one in ask(options, lambda client: client.admin.limits()) if one.name == options.limit]
    ask(options, lambda client: client.admin.remove_limit(options.limit))
    return before


def _set_key(options: argparse.Namespace, values: dict[str, Any]) -> list[LimitInfo]:
    if wrong := given(options, ["total", "total_rate"]):
        raise Usage(f"{wrong[0]} is that of all keys: leave --key out")
    if None in values.values():
        raise Usage("a key has the values of its limit unless others are set: none is not one of them")
    ask(options, lambda client: client.admin.set_partition(options.limit, options.key, **values, by=options.by))
    return [one for one in ask(options, lambda client: client.admin.limits()) if one.name == options.limit]


def _or_none(read: Callable[[str], Any], text: str) -> Any:
    return NONE if text == NONE else read(text)


def _rate(text: str) -> Rate:
    count, slash, per = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 100/1m for 100 starts in a minute")
    try:
        return Rate(natural(count), duration(per))
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _print(limits: Sequence[LimitInfo], *, as_json: bool) -> None:
    print_lines([msgspec.json.encode(one).decode() for one in limits] if as_json else table(limits))


def table(limits: Sequence[LimitInfo]) -> list[str]:
    """One line for each limit, below a line of headings."""
    rows = [("limit", "kind", "now", "declared", "set by", "running", "waiting", "full", "key", "tasks")]
    rows += [
        (
            printable(one.name),
            one.kind,
            phrase(one.values, one.kind) + (", paused" if one.paused_at else ""),
            _declared(one),
            printable(one.set_by or ""),
            str(one.running),
            _counted(one.waiting),
            str(one.full),
            printable(", ".join(one.by)),
            printable(", ".join(one.tasks)),
        )
        for one in limits
    ]
    return aligned(rows)


def _declared(one: LimitInfo) -> str:
    if one.declared is None:
        return "no"
    return "the same" if one.declared == one.values else phrase(one.declared, one.kind)


def table_of_keys(keys: Sequence[PartitionInfo]) -> list[str]:
    """One line for each key, below a line of headings."""
    rows = [("key", "waiting", "running", "why", "next at")]
    rows += [
        (
            printable("?" if one.key is None else one.key),
            _counted(one.waiting),
            str(one.running) if one.may is None else f"{one.running} of {one.may}",
            one.why or "",
            "" if one.next_at is None else f"{one.next_at:%Y-%m-%d %H:%M:%S %Z}",
        )
        for one in keys
    ]
    return aligned(rows)


def _counted(jobs: int) -> str:
    return f"{jobs} or more" if jobs >= 1000 else str(jobs)

"""`asyncq pause` and `asyncq resume`: stop and start the jobs of a task, a queue, a limit, a key, or all jobs."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from asyncq.cli.failures import FAILED
from asyncq.cli.job_texts import aligned, print_lines
from asyncq.cli.parsing import Commands, Usage, add_command, ask
from asyncq.domain.pause import Pause
from asyncq.domain.sentence import printable

PAUSE = """\
Pause a task, a queue, a limit, a key of a limit, or everything.

From now on no worker starts a job of it until it is resumed. Running jobs run
on, and jobs can be added. Without an option, print what is paused."""

RESUME = """\
Resume what was paused.

Give the same options as to pause it. The exit code is 1 if it is not paused."""

PAUSE_EXAMPLES = """\
  asyncq pause --task send_email --reason 'the provider is down'
  asyncq pause --limit tenants --key acme
  asyncq pause --all --by ann
  asyncq pause                             what is paused
"""

RESUME_EXAMPLES = """\
  asyncq resume --task send_email
  asyncq resume --all
"""


def add_parser(commands: Commands) -> None:
    """Add both commands to the parser."""
    pausing = add_command(commands, "pause", _pause, purpose=PAUSE, examples=PAUSE_EXAMPLES)
    resuming = add_command(commands, "resume", _resume, purpose=RESUME, examples=RESUME_EXAMPLES)
    for parser in (pausing, resuming):
        parser.add_argument("--task", metavar="NAME", help="a task")
        parser.add_argument("--queue", metavar="NAME", help="a queue")
        parser.add_argument("--limit", metavar="NAME", help="a limit: all its jobs, or those of --key")
        parser.add_argument("--key", metavar="KEY", help="a key of the limit")
        parser.add_argument("--all", action="store_true", help="everything")
        parser.add_argument("--reason", metavar="TEXT", help="why")
        parser.add_argument("--by", metavar="NAME", help="who (default: the role that logs in)")
        parser.add_argument("--json", action="store_true", help="print one JSON object a line: a pause")


def _pause(options: argparse.Namespace) -> int:
    target = _target(options)
    if options.all or any(value is not None for value in target.values()):
        paused = [ask(options, lambda client: client.admin.pause(**target, reason=options.reason, by=options.by))]
    elif options.reason is not None or options.by is not None:
        raise Usage("pause what? Give --task, --queue, --limit or --all")
    else:
        paused = ask(options, lambda client: client.admin.paused())
    _print(paused, as_json=options.json)
    return 0


def _resume(options: argparse.Namespace) -> int:
    target = _target(options)
    if not options.all and not any(value is not None for value in target.values()):
        raise Usage("resume what? Give --task, --queue, --limit or --all; `asyncq pause` shows what is paused")
    ended = ask(options, lambda client: client.admin.resume(**target, reason=options.reason, by=options.by))
    if ended is None:
        print("asyncq: it is not paused; `asyncq pause` shows what is paused", file=sys.stderr)
        return FAILED
    if options.json:
        _print([ended], as_json=True)
    return 0


def _target(options: argparse.Namespace) -> dict[str, Any]:
    target: dict[str, Any] = {name: getattr(options, name) for name in ("task", "queue", "limit", "key")}
    if options.all and any(value is not None for value in target.values()):
        raise Usage("--all cannot be combined with a name: it means everything")
    return target


def _print(paused: Sequence[Pause], *, as_json: bool) -> None:
    print_lines([msgspec.json.encode(one).decode() for one in paused] if as_json else table(paused))


def table(paused: Sequence[Pause]) -> list[str]:
    """One line for each pause, below a line of headings."""
    rows = [("paused", "since", "by", "reason")]
    rows += [
        (str(one), f"{one.paused_at:%Y-%m-%d %H:%M:%S %Z}", printable(one.paused_by), printable(one.reason or ""))
        for one in paused
    ]
    return aligned(rows)

"""The parts of all commands: the parser, common options, types of values, texts of the help, the call of a client."""

import argparse
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from asyncq.cli.finish import finish
from asyncq.cli.settings import DEFAULT, Found, Setting, SettingRefused
from asyncq.client import Client
from asyncq.domain.errors import CENTURY_S
from asyncq.domain.hints import STATES, hint
from asyncq.domain.job import JobKeyMode
from asyncq.store.database import default_dsn

AnswerT = TypeVar("AnswerT")

LEVELS = ("debug", "info", "warning", "error")
JOB_KEY_MODES = [mode.value for mode in JobKeyMode]

ENVIRONMENT = """
environment:
  DATABASE_URL                   the database, when --dsn is not given
  PGSERVICE                      the database, when DATABASE_URL is not set: a
                                 service of PGSERVICEFILE (~/.pg_service.conf)
  PGHOST, PGDATABASE             the database, when neither is set; these,
                                 PGPORT, PGUSER, PGPASSWORD, ... complete it
  ASYNCQ_DSN, ASYNCQ_SCHEMA, ... options that are not given; `asyncq config`
                                 lists them, and those of pyproject.toml
"""

EXIT_CODES = """
exit codes:
  0    done
  1    failed: no such job, not all jobs were changed, or some handlers did not
       end
  2    the command line, the job or a task file is wrong; nothing was done
  3    the database cannot be used: it cannot be reached, it refuses, or its
       schema is missing, too old or too new
  130  interrupted with Ctrl-C
"""


class Usage(Exception):
    """The command line is wrong; the usage of the command is shown before the message."""

    def __init__(self, message: str, program: str = "asyncq", usage: str = "") -> None:
        super().__init__(message)
        self.program = program
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises `Usage`, keeps the line breaks of its texts, and accepts only full names of options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._settings: dict[str, Setting] = {}

    def take_settings(self, *, but: Collection[str] = (), prefix: str = "") -> None:
        """Let the options that were added so far have the values of settings when they are not given."""
        taken = [setting.action for setting in self._settings.values()]
        for action in self._actions:
            name = next((option[2:] for option in action.option_strings if option.startswith("--")), None)
            if name is not None and name not in ("help", *but) and action not in taken:
                self._settings[prefix + name] = _known[prefix + name] = Setting(prefix + name, action)

    def error(self, message: str) -> NoReturn:
        """Raise `Usage` instead of ending the process."""
        raise Usage(message, self.prog, self.format_usage())

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help; argparse itself would hide that the output is full."""
        print(message, end="", file=file or sys.stderr, flush=True)

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """Refuse an unknown option in the parser of its command, which knows the nearest name."""
        found, extra = super().parse_known_args(*args, **options)
        if extra and self._subparsers is None:
            self.error(f"unrecognized arguments: {' '.join(extra)}{self._nearest(extra[0].partition('=')[0])}")
        if self._settings:
            found.sources = dict(self._fill(found))
        return found, extra

    def _fill(self, found: argparse.Namespace) -> Iterator[tuple[str, str]]:
        """Set what was not given; yields the options, and where their values are from."""
        for name, each in self._settings.items():
            if not hasattr(found, each.action.dest):
                value, source = setting(name)
                setattr(found, each.action.dest, value)
                yield each.action.dest, source

    def _nearest(self, word: str) -> str:
        known = [option for option in self._option_string_actions if option.startswith("--")]
        if _LETTER.fullmatch(word) and (near := [option for option in known if option.startswith(f"-{word}")]):
            return f"; did you mean {' or '.join(near)}?"
        return hint(word, known) if word.startswith("-") else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += hint(str(value), [*map(str, action.choices or ())], STATES)
            raise


_known: dict[str, Setting] = {}


def known_settings() -> Collection[str]:
    """The names of the settings of all commands."""
    return _known.keys()


def setting(name: str) -> Found:
    """The value of a setting, and where it is from; Usage if it cannot be used."""
    try:
        return _known[name].find(_known)
    except SettingRefused as error:
        raise Usage(str(error)) from error


class Commands(Protocol):
    """The result of `add_subparsers` of a `Parser`."""

    def add_parser(self, name: str, **options: Any) -> Parser: ...


Run = Callable[[argparse.Namespace], int | None]


def add_group(commands: Commands, name: str, what: str, *, purpose: str, examples: str) -> Commands:
    """Add a group of commands, which needs one of them; returns the group."""

    def refuse(_: argparse.Namespace) -> NoReturn:
        raise Usage(f"what about {what}? See `asyncq {name} --help`")

    parser = commands.add_parser(name, help=purpose, description=purpose, epilog=examples and f"examples:\n{examples}")
    parser.set_defaults(run=refuse)
    return parser.add_subparsers(dest="what", metavar="COMMAND", title="commands")


def add_command(
    commands: Commands, name: str, run: Run, *, purpose: str, examples: str, aliases: Sequence[str] = ()
) -> Parser:
    """Add a command that uses the database, with the options that all these commands share.

    `run` returns the exit code; None is 0. The first line of `purpose` is shown in the list of commands.
    """
    parser = commands.add_parser(
        name,
        aliases=aliases,
        help=purpose.partition("\n")[0],
        description=purpose,
        epilog=f"examples:\n{examples}{ENVIRONMENT}{EXIT_CODES}",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--dsn",
        metavar="DSN",
        help="the database, as postgresql://user@host/name; a password in it can be seen by other users of the machine",
    )
    parser.add_argument("--schema", metavar="NAME", default="asyncq", help="the schema of the tables (default: asyncq)")
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="(default: info); debug also shows the traceback of an error",
    )
    parser.take_settings()
    return parser


def dsn_of(options: argparse.Namespace) -> str:
    """The database of a command: --dsn, else the environment, else Usage is raised."""
    dsn = dsn_if_any(options)
    if dsn is None:
        raise Usage("which database? Give --dsn postgresql://user@host/name, or set DATABASE_URL")
    return dsn


def dsn_if_any(options: argparse.Namespace) -> str | None:
    """The database of a command: --dsn, else the environment; None if neither names one."""
    if options.dsn == "":
        raise Usage("--dsn is empty: is a variable not set?")
    return options.dsn or default_dsn()


def ask(options: argparse.Namespace, question: Callable[[Client], Awaitable[AnswerT]]) -> AnswerT:
    """Call a client of the database that the command line, or the environment, names."""

    async def answer() -> AnswerT:
        async with Client(dsn, schema=options.schema, pool_size=1) as client:
            return await question(client)

    dsn = dsn_of(options)
    return finish(answer())


def duration(text: str) -> timedelta:
    """A time span such as `90`, `1.5s`, `500ms`, `5m`, `2h30m`, `7d`, at most a century; a bare number is seconds."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time span; write 90s, 5m, 2h30m, 7d or 500ms")
    total_s = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if total_s > CENTURY_S:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than 100 years")
    return timedelta(seconds=total_s)


def instant(text: str) -> datetime:
    """A point in time in ISO 8601, with its time zone."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 2030-01-31T09:00:00Z") from error
    if value.utcoffset() is None:
        whole = value.isoformat()
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; write {whole}Z for UTC, or {whole}+02:00")
    return value


def expiry(text: str) -> timedelta | datetime:
    """A time span from now, or a point in time."""
    return duration(text) if _PART.match(text) and not _DAY.match(text) else instant(text)


def keep(text: str) -> timedelta | Literal[False]:
    """A time span, or `never`."""
    return False if text == "never" else duration(text)


def _whole(least: int, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_OF_BIGINT or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


natural, positive = partial(_whole, 0), partial(_whole, 1)


def given(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Those of the options that have a value, as they are written on the command line, and where else that is from."""
    sources = {name: f" ({source})" for name, source in options.sources.items() if source != DEFAULT}
    return [
        f"--{name.replace('_', '-')}{sources.get(name, '')}"
        for name in names
        if getattr(options, name) is not None and getattr(options, name) is not False
    ]


_LETTER = re.compile("-[a-z]")
_DAY = re.compile(r"\d{4}-?\d")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)", re.ASCII)
_UNITS_S = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DIGITS_OF_BIGINT = 18

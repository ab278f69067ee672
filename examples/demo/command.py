"""The command of the demo: asyncq on real input, without any set-up; Ctrl-C at any moment leaves nothing behind."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from asyncq.cli.failures import DATABASE, report
from asyncq.cli.output import drop_output, print_anything
from asyncq.cli.parsing import Parser, Usage, positive
from asyncq.domain.errors import AsyncqError

if TYPE_CHECKING:
    from examples.demo.play import Options
    from examples.demo.screen import Screen

VARIABLE = "ASYNCQ_TEST_DATABASE_URL"
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

PURPOSE = """See it work, without any set-up: a server, workers, one job for each file of Python's standard library.

Starts a throw-away PostgreSQL and worker processes, counts the standard library,
shows a serial queue, a priority, a retry and a job for later, and leaves
nothing behind. Ctrl-C ends it at any moment."""

DETAILS = f"""
environment:
  {VARIABLE}  the server, when --dsn is not given; DATABASE_URL is never used
  ASYNCQ_PG_BIN             the folder of the PostgreSQL to start a server with

exit codes:
  0    done
  1    failed
  2    the command line is wrong
  3    there is no PostgreSQL on this machine, or the given one cannot be used
  130  interrupted with Ctrl-C
"""

NEXT = """
Nothing is left behind: no process, no server, no schema, no file.
Next: `{command} worker --help` for your own tasks; docs/guide/README.md is the guide."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: The words after the program's name (default: those of this process).

    Returns:
        The exit code; `--help` lists them.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    print_anything()
    try:
        return run(_parser().parse_args(words))
    except Usage as error:
        return report(error, as_json="--json" in words, with_traceback=False)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return drop_output()


def _parser() -> Parser:
    parser = Parser(prog="python -m examples.demo", description=PURPOSE, epilog=DETAILS)
    add = parser.add_argument
    add("--dsn", metavar="DSN", help="use this server, in a new schema that is dropped at the end")
    add("--workers", metavar="N", type=positive, default=2, help="worker processes (default: 2)")
    add("-j", "--concurrency", metavar="N", type=positive, default=2, help="jobs at once in each (default: 2)")
    add("--limit", metavar="N", type=positive, help="count only the first N files (default: all)")
    add("--json", action="store_true", help="print the result as JSON, and everything else to stderr")
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the demo.

    Args:
        args: The parsed command line.

    Returns:
        The exit code: 0. 130 after Ctrl-C (143 after SIGTERM, 129 after SIGHUP). 3 without a PostgreSQL. 1 or 2 after
        another failure.

    Raises:
        Usage: The DSN is empty.
        BrokenPipeError: The reader of the output has ended; nothing is left behind all the same.
    """
    if args.dsn == "":
        raise Usage("--dsn is empty: is a variable not set?")
    with interruptions() as interruption:
        # Imported here: it takes a while, in which a Ctrl-C must be handled too.
        from asyncq.server import ServerBinariesNotFound
        from examples.demo.play import Options
        from examples.demo.screen import Screen

        screen = Screen(sys.stderr if args.json else sys.stdout)
        options = Options(args.dsn or os.environ.get(VARIABLE) or None, args.workers, args.concurrency, args.limit)
        code, last_words = 0, "Stopped; nothing is left behind."
        try:
            asyncio.run(_play(options, screen, interruption, as_json=args.json))
        except AsyncqError as error:
            screen.clear()
            code, last_words = report(error, as_json=args.json, with_traceback=False), "Stopped."
            code = DATABASE if isinstance(error, ServerBinariesNotFound) else code
        if interruption.number:
            screen.say(last_words)
            return 128 + interruption.number
    return code


async def _play(options: Options, screen: Screen, interruption: Interruption, *, as_json: bool) -> None:
    from examples.demo import report as written
    from examples.demo.play import play

    with anyio.CancelScope() as scope, interruption.cancelling(scope):
        found = await play(options, screen)
        await anyio.lowlevel.checkpoint()
        if as_json:
            print(written.as_json(found), flush=True)
            return
        for line in written.as_text(found):
            screen.say(line)
        screen.say(NEXT.format(command=_command()))


class Interruption:
    """The first signal, which cancels a scope; further ones do nothing.

    An exception that a signal raises could hit a line that cleans up; a cancellation cannot. Cleaning up takes a few
    seconds at most, so a second Ctrl-C need not shorten it.

    Attributes:
        number: The signal; 0 if there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._cancel: Callable[[], object] | None = None

    def take(self, number: int, _frame: object) -> None:
        """Handle a signal, as `signal.signal` calls it."""
        if not self.number:
            self.number = number
            if self._cancel is not None:
                self._cancel()

    @contextmanager
    def cancelling(self, scope: anyio.CancelScope) -> Generator[None]:
        """Let the signal cancel a scope of the running event loop; an earlier signal does so at once."""
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(scope.cancel)
        if self.number:
            scope.cancel()
        try:
            yield
        finally:
            self._cancel = None


@contextmanager
def interruptions() -> Generator[Interruption]:
    """Handle SIGINT, SIGTERM and SIGHUP until the block ends; after a signal for ever, because the process ends.

    Yields:
        The first signal, if there is one.

    Ignored signals stay ignored, such as SIGHUP under `nohup`.
    """
    interruption = Interruption()
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interruption.take) for number in taken}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interruption.number else handler)


def _command() -> str:
    """The command asyncq, as a path: `make demo` installs it into a folder that is not on the PATH."""
    if shutil.which("asyncq"):
        return "asyncq"
    installed = Path(sys.executable).with_name("asyncq")
    return os.path.relpath(installed) if installed.exists() else f"{os.path.relpath(sys.executable)} -m asyncq"

"""The command `asyncq`: runs the command that was named, and turns errors into sentences and exit codes."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from asyncq.cli.failures import INTERRUPTED, USAGE, report
from asyncq.cli.output import drop_output, is_of_output, print_anything
from asyncq.cli.parsing import ENVIRONMENT, EXIT_CODES, Parser, Usage
from asyncq.domain.errors import AsyncqError, ConfigurationError

COMMANDS = (
    "worker",
    "dev",
    "migrate",
    "roles",
    "add",
    "jobs",
    "tasks",
    "queues",
    "stats",
    "top",
    "cron",
    "workers",
    "limits",
    "pause",
    "cleanup",
    "metrics",
    "probe",
    "doctor",
    "dashboard",
    "config",
    "completion",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of this process, and return the exit code; `asyncq --help` lists them."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace(log_level=None, words=words)
    as_json = "--json" in words
    try:
        print_anything()  # It flushes text of before, which may fail.
        _check_order(words)
        parser = whole_parser()
        parser.parse_args(words, options)
        if options.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        code: int = options.run(options) or 0
        print(end="", flush=True)  # Here an error of a closed pipe is still handled.
    except (AsyncqError, Usage) as error:
        return report(error, as_json=as_json, with_traceback=options.log_level == "debug")
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has ended.
        return drop_output()
    except OSError as error:
        if options.log_level == "debug" or not is_of_output(error):
            raise
        print(f"asyncq: the output cannot be written: {error.strerror}", file=sys.stderr)
        return drop_output()
    return code


def whole_parser() -> Parser:
    """The parser of all commands."""
    return _parser(_commands())


def _check_order(words: Sequence[str]) -> None:
    """Refuse an option before its command.

    Its value would be taken for the command, and shown: a DSN with its password too.
    """
    above = [word for word in words[:1] if word in ("jobs", "cron", "workers")]
    for word in words[len(above) : len(above) + 1]:
        option = "--dsn" if "://" in word else word.partition("=")[0]
        if option.startswith("-") and option not in ("-h", "--help", "--version"):
            raise Usage(f"{option} belongs after the command: {' '.join(('asyncq', *above))} COMMAND {option} ...")


def _commands() -> list[ModuleType]:
    """Import the commands: modules with `add_parser(commands)`."""
    try:
        return [importlib.import_module(f"{__name__}.{name}") for name in COMMANDS]
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(__name__):
            raise
        # Tools that pack a program do not see imports by name.
        raise ConfigurationError(
            f"the module {error.name} is missing: a program that packs asyncq must include all of its modules and "
            "data files, as PyInstaller does with --collect-all asyncq"
        ) from error


def _parser(commands: Sequence[ModuleType]) -> Parser:
    parser = Parser(
        prog="asyncq",
        description="A job queue on PostgreSQL: run workers, install the schema, add jobs.",
        epilog=_EXAMPLES + ENVIRONMENT + EXIT_CODES,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    below = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in commands:
        command.add_parser(below)
    return parser


class _Version(argparse.Action):
    """Prints the version, and reads the package's metadata only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"asyncq {version('asyncq')}", flush=True)
        except PackageNotFoundError:
            print("asyncq (version unknown: not installed as a package)")
        parser.exit()


_EXAMPLES = """\
examples:
  asyncq migrate                           install the schema, or upgrade it
  asyncq worker                            run the tasks of the folder ./tasks
  asyncq dev                               the same with a temporary server and
                                           the dashboard, while you write tasks
  asyncq add send_email '{"to": "a@b.c"}'  add a job
  asyncq jobs show 1                       show this job
  asyncq COMMAND --help                    options and examples
"""

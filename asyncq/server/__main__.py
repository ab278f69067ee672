"""`python -m asyncq.server`: list the available servers, or run a command with a throw-away one."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from asyncq.domain.errors import AsyncqError
from asyncq.server.binaries import available_binaries
from asyncq.server.launcher import Server, start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the command's exit code, 1 without a server, 130 after a Ctrl-C before it began."""
    options = _parser().parse_args(arguments)
    try:
        if options.what == "list":
            return _list()
        with start(binaries=options.bin, fsync=options.fsync, settings=dict(options.setting)) as server:
            return _run(server, options.command)
    except AsyncqError as error:
        print(f"asyncq.server: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m asyncq.server", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    kinds.add_parser("list", help="one line for each available server: major version, version, origin, folder")
    run = kinds.add_parser(
        "run",
        help="start a server, run a command with its DSN in DATABASE_URL and ASYNCQ_TEST_DATABASE_URL, stop the server",
    )
    run.add_argument("--bin", metavar="FOLDER", help="the folder of initdb and postgres; default: look for it")
    run.add_argument("--fsync", action="store_true", help="write through to the disk at each commit (default: no)")
    run.add_argument(
        "--setting",
        type=_setting,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a server setting such as shared_buffers=1GB; may be repeated",
    )
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after `--`")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _list() -> int:
    for found in available_binaries():
        print(found.major, found.version, found.origin, found.bindir, sep="\t")
    return 0


def _run(server: Server, command: Sequence[str]) -> int:
    # The command also receives the Ctrl-C and decides how to end; the server is stopped after it. The handler is set
    # before the command starts: otherwise a Ctrl-C could leave the command running. It is a function, because the
    # command would inherit SIG_IGN.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    environment = {**os.environ, "DATABASE_URL": server.dsn, "ASYNCQ_TEST_DATABASE_URL": server.dsn}
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        print(f"asyncq.server: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        return 127
    for passed_on in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(passed_on, lambda number, _frame: process.send_signal(number))
    code = process.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())

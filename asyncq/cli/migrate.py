"""`asyncq migrate`: install or upgrade the schema, or check whether it is up to date."""

import argparse
import json
import sys
from functools import partial

import msgspec

from asyncq.cli.failures import DATABASE
from asyncq.cli.finish import finish
from asyncq.cli.parsing import Commands, add_command, dsn_of
from asyncq.domain.sentence import command
from asyncq.store.database import Database
from asyncq.store.migrate import Report, migrate, status

PURPOSE = """\
Install asyncq's schema, or upgrade it.

It is safe at every deploy and from many machines at once: one of them migrates,
the others wait. It waits for a lock for at most half a second at a time, so
that no other session queues behind it, and names the sessions that hold the
lock. A database that is newer than this release is not changed, and the exit
code is 0."""

EXAMPLES = """\
  asyncq migrate                install or upgrade
  asyncq migrate --check        for a deploy script: is the schema up to date?
  asyncq migrate --schema jobs  a schema with another name
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "migrate", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 3 if migrations are pending")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object: schema, version, newest, applied, pending, breaking"
    )


def run(options: argparse.Namespace) -> int:
    """Migrate, or check; returns 3 if migrations are pending after --check."""
    database = Database(dsn_of(options), options.schema)
    say = partial(print, "asyncq:", file=sys.stderr, flush=True)
    report = finish(status(database) if options.check else migrate(database, say))
    if options.json:
        print(json.dumps({"schema": options.schema, **msgspec.structs.asdict(report)}))
    else:
        print("\n".join(_lines(options.schema, report)))
    return DATABASE if report.pending else 0


def _lines(schema: str, report: Report) -> list[str]:
    if report.is_newer:
        newer = f"is at version {report.version}, newer than this release, which knows {report.newest}"
        return [f"schema {schema!r} {newer}: nothing was changed"]
    if report.pending:
        pending = [f"pending: {_described(report, name)}" for name in report.pending]
        return [*pending, f"schema {schema!r} needs `{command('migrate', schema)}`"]
    if report.applied:
        done = [f"applied: {_described(report, name)}" for name in report.applied]
        return [*done, f"schema {schema!r} is now at version {report.version}"]
    return [f"schema {schema!r} is up to date, at version {report.version}"]


def _described(report: Report, name: str) -> str:
    oldest = report.breaking.get(name)
    return name if oldest is None else f"{name}, which stops workers and clients older than {oldest}"

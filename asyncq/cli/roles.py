"""`asyncq roles`: print or run the SQL that grants the rights of a worker role and an enqueuer role."""

import argparse
import asyncio

from asyncq.cli.parsing import Commands, add_command, dsn_of
from asyncq.store.database import Database
from asyncq.store.roles import apply, script

PURPOSE = """\
Grant two roles the rights that they need, and no others.

The worker role runs, adds and reads jobs. The enqueuer role can call one
function that adds jobs, and can read, change and run none. PUBLIC gets no
rights. Without --apply the SQL is printed, for psql or for a review; this needs
no database. A missing role is created, without the right to log in.

The owner of the schema applies it after each `asyncq migrate`. It can be
repeated: rights that a release no longer needs are revoked."""

EXAMPLES = """\
  asyncq roles --worker app_worker --enqueuer app_web
  asyncq roles --worker app_worker --enqueuer app_web --apply
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "roles", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--worker", metavar="ROLE", required=True, help="the role that runs jobs")
    parser.add_argument("--enqueuer", metavar="ROLE", required=True, help="the role that only adds jobs")
    parser.add_argument("--apply", action="store_true", help="run the SQL in one transaction instead of printing it")


def run(options: argparse.Namespace) -> int:
    """Print the script, or run it."""
    if not options.apply:
        print(script(options.schema, worker=options.worker, enqueuer=options.enqueuer), end="")
        return 0
    database = Database(dsn_of(options), options.schema)
    asyncio.run(apply(database, worker=options.worker, enqueuer=options.enqueuer))
    print(f"schema {options.schema!r}: {options.worker!r} runs jobs, {options.enqueuer!r} adds them")
    return 0

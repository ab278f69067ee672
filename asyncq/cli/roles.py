"""`asyncq roles`: print or run the SQL that grants the rights of a worker role and an enqueuer role."""

import argparse

from asyncq.cli.finish import finish
from asyncq.cli.parsing import Commands, Usage, add_command, dsn_of
from asyncq.store.database import Database
from asyncq.store.roles import apply, apply_monitor, monitor_script, script

PURPOSE = """\
Grant two roles the rights that they need, and no others.

The worker role runs, adds and reads jobs. The enqueuer role can call one
function that adds jobs, and can read, change and run none. PUBLIC gets no
rights. A monitor role (--monitor) reads numbers, and sees no payload, meta or
key, and of errors the first line only.

Without --apply the SQL is printed, for psql or for a review; this needs no
database. A missing role is created, without the right to log in.

The owner of the schema applies it after each `asyncq migrate`. It can be
repeated: rights that a release no longer needs are revoked."""

EXAMPLES = """\
  asyncq roles --worker app_worker --enqueuer app_web
  asyncq roles --worker app_worker --enqueuer app_web --apply
  asyncq roles --monitor app_monitor --apply
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "roles", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--worker", metavar="ROLE", help="the role that runs jobs")
    parser.add_argument("--enqueuer", metavar="ROLE", help="the role that only adds jobs")
    parser.add_argument("--monitor", metavar="ROLE", help="the role that reads numbers")
    parser.add_argument("--apply", action="store_true", help="run the SQL in one transaction instead of printing it")


def run(options: argparse.Namespace) -> int:
    """Print the scripts, or run them."""
    worker, enqueuer, monitor = options.worker, options.enqueuer, options.monitor
    if (worker is None) != (enqueuer is None) or (worker is None and monitor is None):
        raise Usage("which roles? Give --worker and --enqueuer, or --monitor, or all three")
    if not options.apply:
        if worker is not None:
            print(script(options.schema, worker=worker, enqueuer=enqueuer), end="")
        if monitor is not None:
            print(monitor_script(options.schema, monitor=monitor), end="")
        return 0
    database = Database(dsn_of(options), options.schema)
    if worker is not None:
        finish(apply(database, worker=worker, enqueuer=enqueuer))
        print(f"schema {options.schema!r}: {worker!r} runs jobs, {enqueuer!r} adds them")
    if monitor is not None:
        finish(apply_monitor(database, monitor=monitor))
        print(f"schema {options.schema!r}: {monitor!r} reads numbers")
    return 0

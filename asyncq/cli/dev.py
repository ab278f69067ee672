"""`asyncq dev`: a server, the schema, a worker that reloads and the dashboard, by one command in one terminal."""

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from asyncq.cli import logs
from asyncq.cli.dashboard import DEFAULT_PORT, TOKEN
from asyncq.cli.finish import finish
from asyncq.cli.parsing import Commands, Usage, add_command, dsn_if_any, positive
from asyncq.cli.reload import watch_of
from asyncq.cli.worker import RELOAD_GRACE_S, tasks_of
from asyncq.cli.worker_group import Place, WorkerGroup
from asyncq.domain.sentence import command
from asyncq.store.database import Database
from asyncq.store.migrate import migrate

PURPOSE = """\
Run all that you need while you write tasks.

It starts a temporary PostgreSQL, unless you name a database, installs the
schema, runs a worker that is started again when the code changes (as asyncq
worker --reload), and serves the dashboard, whose address it prints. Ctrl-C ends
all of them. The data of a temporary server are lost then.

It needs pip install 'asyncq[dashboard,dev,embedded]'; without dev the files are
compared every half second, and a PostgreSQL of the system replaces embedded."""

EXAMPLES = """\
  asyncq dev                             the tasks of the folder ./tasks
  asyncq dev --tasks app.tasks
  asyncq dev --dsn postgresql:///app     with this database
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "dev", run, purpose=PURPOSE, examples=EXAMPLES)
    add = parser.add_argument
    add("--tasks", metavar="WHAT", help="a folder, or module:name (default: ./tasks, if it exists)")
    add("-j", "--concurrency", metavar="N", type=positive, help="jobs at once (default: 10)")
    add("--crontab", metavar="FILE", help="recurring jobs (default: the file crontab beside the folder of tasks)")
    parser.take_settings()
    add("--port", type=int, default=DEFAULT_PORT, help="the port of the dashboard; 0 is any free one (default: 8080)")
    parser.take_settings(prefix="dashboard-")


def run(options: argparse.Namespace) -> int:
    """Run until a signal; returns 0, or the exit code of what failed."""
    logs.configure(options.log_level, "text")
    tasks = tasks_of(options.tasks)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Until the group has its handlers.
    try:
        with _database(options) as dsn:
            finish(migrate(Database(dsn, options.schema), _say))
            os.environ["ASYNCQ_DSN"] = dsn
            os.environ.setdefault(TOKEN, secrets.token_urlsafe(32))
            places = [
                Place("the worker", _worker(options, tasks), watch_of(tasks, options.crontab), RELOAD_GRACE_S),
                Place("the dashboard", _command(options, "dashboard", "--port", str(options.port))),
            ]
            return WorkerGroup(places, restarts=True).run()
    except KeyboardInterrupt:
        return 0


@contextmanager
def _database(options: argparse.Namespace) -> Generator[str]:
    """The database that was named, or one on a temporary server."""
    dsn = dsn_if_any(options)
    if dsn is not None:
        yield dsn
        return

    from asyncq.server import ServerBinariesNotFound, start

    try:
        server = start()
    except ServerBinariesNotFound as error:
        raise Usage(f"which database? Give --dsn postgresql://user@host/name, or set DATABASE_URL. {error}") from error
    with server:
        _say(f"a temporary PostgreSQL {server.version} runs until this command ends. To add jobs to it:")
        print(f"  DATABASE_URL='{server.dsn}' {command('add TASK', options.schema)}", file=sys.stderr, flush=True)
        yield server.dsn


def _worker(options: argparse.Namespace, tasks: str) -> list[str]:
    words = ["worker", "--tasks", tasks]
    if options.concurrency is not None:
        words += ["--concurrency", str(options.concurrency)]
    if options.crontab is not None:
        words += ["--crontab", options.crontab]
    return _command(options, *words)


def _command(options: argparse.Namespace, *words: str) -> list[str]:
    common = ["--schema", options.schema, "--log-level", options.log_level]
    return [sys.executable, "-m", "asyncq", *words, *common]


def _say(text: str) -> None:
    print(f"asyncq: {text}", file=sys.stderr, flush=True)

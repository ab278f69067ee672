"""`asyncq worker`: run jobs until a signal arrives, or until no job is due."""

import argparse
import logging
import os
from datetime import timedelta
from functools import partial
from pathlib import Path

from asyncq.cli import logs, process, worker_group
from asyncq.cli.failures import exit_code
from asyncq.cli.parsing import Commands, Usage, add_command, dsn_of, duration, given, positive
from asyncq.cli.reload import watch_of
from asyncq.domain.cron.item import CronItem
from asyncq.domain.errors import AsyncqError
from asyncq.domain.http_address import http_address
from asyncq.domain.options import DISCARDED_RETENTION, ERROR_RETENTION
from asyncq.domain.share import Share
from asyncq.engine.signals import EarlySignals, StoppedEarly, early_signals
from asyncq.worker import Worker

DEFAULT_FOLDER = "tasks"
RELOAD_GRACE_S = 2.0

PURPOSE = """\
Run jobs until SIGTERM or Ctrl-C.

--tasks FOLDER: every .py file below the folder is a task file, unless its name
begins with _ or a dot. If one function in it is decorated with @task, the path
is the name of the task: tasks/mail/send.py is mail/send. If there are several,
each has the name of its function. @task(name="...") takes precedence over both.
Set a name if a program adds jobs with the task object.

--tasks MODULE: every task in the module. --tasks MODULE:NAME: a task, a list of
tasks, or a Worker, which has its options in the code. Modules are searched in
the current folder first.

--crontab FILE has the recurring jobs. Without it the file crontab beside the
folder of tasks is used, if it exists. Each slot is added once, by the first
worker. A worker with --once adds none.

--lifespan MODULE:NAME: an async context manager function that takes the worker.
It is entered before the first fetch, and left after the last job. Without the
option a module of --tasks may have one with the name worker_lifespan. --codec
names the codec in the same way, or the module may have a worker_codec.

--processes N: N workers, each in a process of its own. One that ends by itself
is started again, after a wait that grows to 30 s. Send signals to the parent,
which passes them on. The exit code is 0, or that of the first one that failed
to stop; an error in the command line or in the tasks ends all of them with 2.

--reload: a worker, or N of them, in processes that are replaced when a .py file
or the crontab changes, in the current folder or that of the tasks. Running jobs
may continue for --grace, by default 2 s then. Tasks that cannot be loaded are
shown, and tried again after the next change. It is meant for development.

After a signal, running jobs may finish within the grace period. Then they are
cancelled and due again, and no attempt is counted. A second signal ends the
grace period. If uvloop is installed, the worker uses it.

--http HOST:PORT: a thread answers /healthz (503 once the event loop has been
blocked for --unhealthy-after), /readyz (503 while the worker takes no jobs) and
/metrics, for Prometheus (pip install 'asyncq[metrics]'). With --processes N the
first worker has this port, and each next one the port after it."""

EXAMPLES = """\
  asyncq worker                          the tasks of the folder ./tasks
  asyncq worker --tasks app.tasks -j 50  the tasks of a module, 50 jobs at once
  asyncq worker --tasks app.main:worker  a Worker
  asyncq worker --processes 4            4 workers, each in its own process
  asyncq worker --reload                 start again when the code changes
  asyncq worker --once                   run due jobs, then end
  asyncq worker --http 127.0.0.1:8081    answer probes, and show metrics
  asyncq worker --crontab jobs.crontab   recurring jobs, one on each line
  asyncq worker --queues mail,reports:2  jobs of two queues, of reports at most
                                         two at once
  asyncq worker --migrate --forbid slow  install the schema first; do not run
                                         jobs with the flag slow
"""

NEVER, NONE = "never", "none"

# The options that a Worker object does not have in the code.
_OF_ANY_WORKER = (
    "command",
    "log_format",
    "log_level",
    "once",
    "parent",
    "place",
    "processes",
    "reload",
    "run",
    "schema",
    "sources",
    "tasks",
    "words",
)

_OF_ONE_CALL = ("once", "parent", "place", "reload")


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "worker", run, purpose=PURPOSE, examples=EXAMPLES)
    add = parser.add_argument
    add("--tasks", metavar="WHAT", help="a folder, or module:name (default: ./tasks, if it exists)")
    add("--once", action="store_true", help="run due jobs, and jobs that become due meanwhile, then end")
    add("-j", "--concurrency", metavar="N", type=positive, help="jobs at once (default: 10)")
    add("--processes", metavar="N", type=positive, help="run N workers, and start one again that ends by itself")
    add("--reload", action="store_true", help="start again when the code or the crontab changes")
    add("--parent", type=int, help=argparse.SUPPRESS)
    add("--place", type=int, default=1, help=argparse.SUPPRESS)
    of_tasks = "processes at once for tasks with run_in='process' (default: one for each CPU)"
    add("--task-processes", metavar="N", type=positive, help=of_tasks)
    add_time = partial(add, metavar="TIME")
    add_time("--poll", type=duration, help="how long an idle worker sleeps between two fetches (default: 2s)")
    add_time("--lease", type=duration, help="how long without a heartbeat until other workers take over (default: 30s)")
    add_time("--grace", type=duration, help="how long running jobs may continue after a signal (default: 25s)")
    kept = "how long discarded jobs are kept; never: they are not removed (default: 30d)"
    add_time("--discarded-retention", type=partial(_retention, without=NEVER), help=kept)
    kept = "how long failed attempts are kept; none: they are not recorded (default: 7d)"
    add_time("--error-retention", type=partial(_retention, without=NONE), help=kept)
    add_time("--keep", type=duration, help="how long ended jobs are kept, of tasks that do not say it (default: not)")
    add("--no-listen", action="store_true", help="only poll, for a pooler without LISTEN")
    add("--no-stats", action="store_true", help="do not write numbers over time")
    add("--listen-dsn", metavar="DSN", help="the database for LISTEN: the server itself, if --dsn is a pooler")
    add("--forbid", metavar="FLAG", action="append", help="do not run jobs with this flag; may be repeated")
    chosen = (
        "run only jobs of these queues and limits, with commas between; NAME:N: at most N at once; and jobs of none"
    )
    add("--queues", metavar="NAME[:N],...", help=chosen)
    add("--exclude", metavar="NAME,...", help="run no jobs of these queues and limits")
    add("--crontab", metavar="FILE", help="recurring jobs (default: the file crontab beside the folder of tasks)")
    add("--migrate", action="store_true", help="upgrade the schema first")
    add("--http", metavar="HOST:PORT", help="answer probes and show metrics there (default: not)")
    silent = "how long the event loop may be blocked until /healthz says so (default: 30s)"
    add_time("--unhealthy-after", type=duration, help=silent)
    lifespan = "a context manager around the worker (default: worker_lifespan in the module of --tasks)"
    add("--lifespan", metavar="MODULE:NAME", help=lifespan)
    codec = "decodes payloads that clients have encoded (default: worker_codec in the module of --tasks)"
    add("--codec", metavar="MODULE:NAME", help=codec)
    add("--log-format", choices=logs.FORMATS, default="text", help="text (default), or one JSON object a line")
    parser.take_settings(but=_OF_ONE_CALL)


def run(options: argparse.Namespace) -> int:
    """Run a worker. With a JSON log, the result is the exit code of the error that was logged."""
    logs.configure(options.log_level, options.log_format)
    if options.parent is not None:
        worker_group.follow(options.parent)
    elif options.reload:
        return _reload(options)
    elif options.processes is not None:
        return worker_group.run_group(options.words, options.processes, restarts=not options.once)
    try:
        with early_signals() as early:
            if options.parent is not None:
                worker_group.unblock_signals()
            _work(options, early)
    except StoppedEarly as error:
        logs.restore(options.log_level, options.log_format)  # The import of tasks may have stopped half way.
        logging.getLogger(logs.LOGGER).info("stopped (%s) before the worker started", error)
    except (AsyncqError, Usage) as error:
        if options.log_format != "json":
            raise
        logs.write_error(error, with_traceback=options.log_level == "debug")
        return exit_code(error)
    return 0


def _reload(options: argparse.Namespace) -> int:
    if options.once:
        raise Usage("--once with --reload: only a worker that keeps running is started again")
    grace_s = RELOAD_GRACE_S if options.grace is None else options.grace.total_seconds()
    watch = watch_of(tasks_of(options.tasks), options.crontab)
    return worker_group.run_group(options.words, options.processes or 1, restarts=True, watch=watch, grace_s=grace_s)


def _work(options: argparse.Namespace, early: EarlySignals) -> None:
    if options.once and options.crontab is not None:
        raise Usage("--once with --crontab: only a worker that keeps running adds recurring jobs")

    from asyncq.loading import CODEC, LIFESPAN, load, load_option

    what = tasks_of(options.tasks)
    with early.interrupt():  # Modules of the user may import slowly.
        found = load(what)
        lifespan = load_option(LIFESPAN, options.lifespan, what)
        codec = load_option(CODEC, options.codec, what)
    logs.restore(options.log_level, options.log_format)
    if isinstance(found, Worker):
        names = [name for name in vars(options) if name not in _OF_ANY_WORKER]
        if extra := given(options, names) + (["--schema"] if options.schema != "asyncq" else []):
            raise Usage(f"{', '.join(extra)}: {options.tasks} is a Worker object, whose options are set in the code")
        worker = found
        if worker._http is not None:  # pyright: ignore[reportPrivateUsage]
            worker._http = worker._http.shifted(options.place - 1)  # pyright: ignore[reportPrivateUsage]
    else:
        worker = Worker(
            dsn_of(options),
            found,
            schema=options.schema,
            concurrency=options.concurrency,
            poll=options.poll,
            lease=options.lease,
            grace=options.grace,
            discarded_retention=_kept(options.discarded_retention, DISCARDED_RETENTION),
            error_retention=_kept(options.error_retention, ERROR_RETENTION),
            keep=options.keep,
            listen=not options.no_listen,
            stats=not options.no_stats,
            listen_dsn=options.listen_dsn,
            queues=None if options.queues is None else _queues(options.queues),
            exclude=None if options.exclude is None else _names(options.exclude),
            forbidden_flags=options.forbid,
            crontab=() if options.once else _items(options.crontab, what),
            migrate=options.migrate,
            lifespan=lifespan,
            processes=options.task_processes,
            codec=codec,
            http=None if options.http is None else str(http_address(options.http).shifted(options.place - 1)),
            unhealthy_after=options.unhealthy_after,
        )
    process.run(partial(worker.run_once, handle_signals=True) if options.once else worker.run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _queues(text: str) -> list[str | Share]:
    """Read `mail,reports:2`. A name may have colons too: a number after the last one is that of jobs at once."""
    found: list[str | Share] = []
    for word in _names(text):
        name, _, number = word.rpartition(":")
        found.append(Share(name, at_once=int(number)) if name and number.isascii() and number.isdigit() else word)
    return found


def _retention(text: str, *, without: str) -> timedelta | str:
    return text if text == without else duration(text)


def _kept(retention: timedelta | str | None, default: timedelta) -> timedelta | None:
    """The argument of `Worker`: the word `never` or `none` is None there."""
    if retention is None:
        return default
    return retention if isinstance(retention, timedelta) else None


def _items(crontab: str | None, what: str) -> tuple[CronItem, ...]:
    """The items of the file that was named, or of the one beside the folder of tasks."""
    from asyncq.loading import crontab_beside, load_crontab

    if crontab is not None:
        if not crontab:
            raise Usage("--crontab is empty: is a variable not set?")
        return load_crontab(Path(crontab))
    beside = crontab_beside(Path(what)) if os.path.isdir(what) else None
    return () if beside is None else load_crontab(beside)


def tasks_of(tasks: str | None) -> str:
    """The value of --tasks, by default the folder ./tasks; Usage if there is none."""
    if tasks is None:
        if not os.path.isdir(DEFAULT_FOLDER):
            raise Usage("which tasks? There is no folder ./tasks; give --tasks FOLDER or --tasks module:name")
        return DEFAULT_FOLDER
    if not tasks:
        raise Usage("--tasks is empty: is a variable not set?")
    return tasks

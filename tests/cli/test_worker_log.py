"""`asyncq worker` logs even if the tasks that it imports change `logging`."""

import json
import re
from pathlib import Path

import pytest

from asyncq import Client
from tests.support.cli import asyncq, write

SETUP = """
import logging.config
from asyncq import JobContext, task

logging.config.dictConfig({config})

@task(max_attempts=1)
async def fail(ctx: JobContext) -> None:
    ctx.logger.warning("about to fail")
    raise LookupError("no such thing")
"""
CONFIGS = {
    "loggers": "{'version': 1, 'loggers': {'app': {'level': 'INFO'}}}",
    "nothing": "{'version': 1}",
    "no handler": "{'version': 1, 'root': {'level': 'ERROR', 'handlers': []}}",
}
OWN = """{
    'version': 1,
    'formatters': {'own': {'format': 'OWN %(name)s %(message)s'}},
    'handlers': {'own': {'class': 'logging.StreamHandler', 'formatter': 'own'}},
    'root': {'level': 'INFO', 'handlers': ['own']},
}"""


@pytest.mark.parametrize("config", CONFIGS)
async def test_tasks_that_set_up_logging_do_not_silence_the_worker(
    dsn: str, schema: str, client: Client, tmp_path: Path, config: str
) -> None:
    """`dictConfig` disables existing loggers by default."""
    write(tmp_path, {"app.py": SETUP.format(config=CONFIGS[config])})
    await client.add_job("fail", max_attempts=1)

    words = ("worker", "--once", "--tasks", "app", "--schema", schema, "--log-format", "json")
    done = await asyncq(*words, cwd=tmp_path, DATABASE_URL=dsn)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    (failed,) = [line for line in lines if line.get("asyncq_event") == "JobDiscarded"]

    assert 0 == done.returncode
    assert ["about to fail"] == [line["message"] for line in lines if line["logger"] == "asyncq.job"]
    assert {"WorkerStarted", "WorkerStopped"} <= {line.get("asyncq_event") for line in lines}
    assert failed["message"].endswith("was discarded: LookupError: no such thing")
    assert "in fail" in failed["exception"]


async def test_a_json_line_about_a_job_has_its_run(dsn: str, schema: str, client: Client, tmp_path: Path) -> None:
    """Its worker, its queue, and how long it took; a line of its handler has the first two."""
    write(tmp_path, {"app.py": SETUP.format(config=CONFIGS["nothing"])})
    added = await client.add_job("fail", max_attempts=1, queue="mail")

    words = ("worker", "--once", "--tasks", "app", "--schema", schema, "--log-format", "json")
    done = await asyncq(*words, cwd=tmp_path, DATABASE_URL=dsn)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    (worker_id,) = {line["worker_id"] for line in lines if line.get("task") == "fail"}
    (failed,) = [line for line in lines if line.get("asyncq_event") == "JobDiscarded"]
    (logged,) = [line for line in lines if line["logger"] == "asyncq.job"]
    fields = {"job_id": added.id, "task": "fail", "attempt": 1, "queue": "mail", "worker_id": worker_id}

    assert any(f"worker {worker_id} takes jobs" in line["message"] for line in lines)
    assert fields == {name: logged[name] for name in fields}
    assert fields == {name: failed[name] for name in fields}
    assert 0 < failed["duration_s"] < 300


async def test_tasks_that_set_up_all_logging_are_obeyed(dsn: str, schema: str, client: Client, tmp_path: Path) -> None:
    """The program's handler of the root logger is used."""
    write(tmp_path, {"app.py": SETUP.format(config=OWN)})
    await client.add_job("fail", max_attempts=1)

    words = ("worker", "--once", "--tasks", "app", "--schema", schema)
    done = await asyncq(*words, cwd=tmp_path, DATABASE_URL=dsn)
    others = [line for line in done.stderr.splitlines() if re.match(r"\d{4}-", line)]

    assert [] == others
    assert "OWN asyncq worker" in done.stderr
    assert "OWN asyncq.job about to fail" in done.stderr


@pytest.mark.parametrize("config", [*CONFIGS.values(), OWN], ids=[*CONFIGS, "own"])
async def test_a_json_log_ends_with_the_error_whatever_the_tasks_set_up(dsn: str, tmp_path: Path, config: str) -> None:
    """Exit code 3 without a message would be useless."""
    write(tmp_path, {"app.py": SETUP.format(config=config)})

    words = ("worker", "--once", "--tasks", "app", "--schema", "not_there", "--log-format", "json")
    done = await asyncq(*words, cwd=tmp_path, DATABASE_URL=dsn)
    line = json.loads(done.stderr.splitlines()[-1])

    assert (3, "error", "asyncq.cli") == (done.returncode, line["level"], line["logger"])
    assert "asyncq migrate --schema not_there" in line["message"]


async def test_no_import_creates_a_logger(tmp_path: Path) -> None:
    """A program may call `dictConfig` after the import, which would disable existing loggers."""
    program = """
import asyncq, asyncq.cli.worker, asyncq.testing, logging
print(sorted(name for name in logging.Logger.manager.loggerDict if name.startswith("asyncq")))
"""
    write(tmp_path, {"app.py": program + "from asyncq import task\n@task\nasync def x() -> None: ...\n"})

    done = await asyncq("worker", "--once", "--tasks", "app", "--dsn", "postgresql://127.0.0.1:1/x", cwd=tmp_path)

    assert "[]\n" == done.stdout

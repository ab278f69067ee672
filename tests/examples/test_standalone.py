"""examples/standalone: the command `asyncq worker` with a folder of tasks, and jobs from SQL and from a script."""

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg
import pytest

from tests.support.example_program import Program, fresh_database, program

TASKS = "examples/standalone/tasks"


@pytest.fixture
async def database(dsn: str, tmp_path: Path) -> AsyncGenerator[str]:
    """A database that `asyncq migrate` has prepared."""
    async with fresh_database(dsn) as name:
        with program(tmp_path / "migrate", "asyncq", "migrate", DATABASE_URL=name) as migrate:
            assert 0 == await migrate.end()
        yield name


@pytest.fixture
async def worker(database: str, tmp_path: Path) -> AsyncGenerator[Program]:
    """The worker. Its poll is longer than the test: only a notification can be fast."""
    with program(tmp_path / "log", "asyncq", "worker", "--tasks", TASKS, "--poll", "60s", DATABASE_URL=database) as it:
        await it.says("takes jobs of 1 tasks")
        yield it


async def test_a_job_from_sql_runs_long_before_the_next_poll(worker: Program, database: str) -> None:
    """An idle worker is woken by the commit; the limit is generous for a busy machine, and far below the poll."""
    connection = await asyncpg.connect(database)
    await connection.execute("""select asyncq.add_job('hello', '{"name":"Alice"}')""")
    await worker.says("Hello, Alice")
    added_at = time.perf_counter()
    await connection.execute("""select asyncq.add_job('hello', '{"name":"Bobby"}')""")
    await worker.says("Hello, Bobby")
    took_s = time.perf_counter() - added_at
    await connection.close(timeout=5)

    assert took_s < 15


async def test_a_job_from_the_producer_runs_now_and_another_one_later(
    worker: Program, database: str, tmp_path: Path
) -> None:
    """A producer needs the name of the task, not its code."""
    with program(tmp_path / "producer", "examples.standalone.producer", "Bobby", DATABASE_URL=database) as producer:
        ended = await producer.end()
    await worker.says("Hello, Bobby, again")

    assert (0, "added job 1\n") == (ended, producer.log.read_text())
    assert "Hello, Bobby\n" in worker.log.read_text()


async def test_the_worker_ends_in_order_at_sigterm(worker: Program) -> None:
    """A deployment that stops it sees success."""
    code = await worker.stop()

    assert 0 == code
    assert "has stopped" in worker.log.read_text()

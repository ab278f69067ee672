"""examples/sql_trigger: rows that psql inserts start jobs, by a trigger of their own and by the reusable one."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg
import pytest

from asyncq.server import available_binaries
from tests.support.example_program import fresh_database, program
from tests.support.waiting import wait_until


def psql() -> str | None:
    """Any psql of this machine: that of a server's own binaries first."""
    folders = [str(found.bindir) for found in available_binaries()]
    return next(filter(None, (shutil.which("psql", path=folder) for folder in folders)), shutil.which("psql"))


async def run_sql(dsn: str, sql: str) -> None:
    """Run a statement from outside of this process: by psql, or by a new connection if there is no psql."""
    if program_path := psql():
        done = await asyncio.to_thread(
            subprocess.run, [program_path, dsn, "-qv", "ON_ERROR_STOP=1", "-c", sql], capture_output=True, text=True
        )
        assert 0 == done.returncode, done.stderr
        return
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture
async def database(dsn: str, tmp_path: Path) -> AsyncGenerator[str]:
    """A database with the example's worker on it."""
    async with fresh_database(dsn) as name:
        with program(tmp_path / "log", "examples.sql_trigger.worker", DATABASE_URL=name) as worker:
            await worker.says("takes jobs of 2 tasks")
            yield name


async def test_an_insert_by_psql_runs_the_jobs_of_both_triggers(database: str) -> None:
    """SQL is a first-class face: psql, an ORM or another language start jobs without knowing of asyncq."""
    await run_sql(database, "insert into users (email) values ('a@b.c')")
    await run_sql(database, "insert into documents (body) values ('to be or not to be')")
    await run_sql(database, "begin; insert into documents (body) values ('never'); rollback")

    async def calm() -> bool:
        return await connection.fetchval("select not exists (select from asyncq.jobs)")

    connection = await asyncpg.connect(database)
    await wait_until(calm, description="the end of all jobs")
    welcomed = await connection.fetchval("select count(welcomed_at) from users")
    words = await connection.fetchval("select array_agg(words) from documents")
    await connection.execute("begin; insert into documents (body) values ('never')")
    queues = await connection.fetchval("select array_agg(queue_name) from asyncq.jobs")
    await connection.close(timeout=5)

    assert (1, [6], ["documents"]) == (welcomed, words, queues)


async def test_an_update_of_the_body_counts_the_words_again(database: str) -> None:
    """The trigger names the column that starts the job, so that the job's own update does not."""
    await run_sql(database, "insert into documents (body) values ('one two')")
    await run_sql(database, "update documents set body = 'one two three'")

    async def outcome() -> bool:
        return await connection.fetchval("select words = 3 and not exists (select from asyncq.jobs) from documents")

    connection = await asyncpg.connect(database)
    await wait_until(outcome, description="the words of the new body, and no job")
    added = await connection.fetchval("select last_value from asyncq._jobs_id_seq")
    await connection.close(timeout=5)

    assert 2 == added

"""examples/flask_app in a real server: jobs follow the request's transaction, and a worker runs them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.support.example_program import fresh_database, program
from tests.support.waiting import wait_until

URL = r"Running on (http://127\.0\.0\.1:\d+)"
SERVER = ("flask", "--app", "examples.flask_app.app", "run", "--port", "0")
WORKER = ("asyncq", "worker", "--tasks", "examples.flask_app.tasks")


@pytest.fixture
async def database(dsn: str, tmp_path: Path) -> AsyncGenerator[str]:
    """A database that `asyncq migrate` has prepared."""
    async with fresh_database(dsn) as name:
        with program(tmp_path / "migrate", "asyncq", "migrate", DATABASE_URL=name) as migrate:
            assert 0 == await migrate.end()
        yield name


async def test_an_order_that_commits_is_confirmed_and_one_that_rolls_back_never_was(
    database: str, tmp_path: Path
) -> None:
    """The job is a row of the session's transaction: it shares its fate."""
    with program(tmp_path / "log", *SERVER, DATABASE_URL=database) as service:
        base = (await service.says(URL))[1]
        async with httpx.AsyncClient(base_url=base, timeout=10) as http:
            refused = await http.post("/orders", json={"item": "unicorn", "email": "a@b.c"})
            taken = await http.post("/orders", json={"item": "teapot", "email": "a@b.c"})
            db = await asyncpg.connect(database)
            waiting = await db.fetchval("select array_agg(id) from asyncq.jobs")
            await db.close(timeout=5)

            with program(tmp_path / "worker", *WORKER, DATABASE_URL=database) as worker:

                async def is_confirmed() -> bool:
                    return (await http.get(f"/orders/{taken.json()['order_id']}")).json()["is_confirmed"]

                await wait_until(is_confirmed, description="the job of the order")
                await worker.stop()

    assert (409, 201, [taken.json()["job_id"]]) == (refused.status_code, taken.status_code, waiting)

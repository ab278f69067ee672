"""examples/fastapi_app in a real uvicorn: jobs follow the request's transaction, and a stop loses none."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.support.example_program import Program, fresh_database, program
from tests.support.waiting import wait_until

TEAPOT = {"item": "teapot", "email": "a@b.c"}
UNICORN = {"item": "unicorn", "email": "a@b.c"}
URL = r"Uvicorn running on (http://127\.0\.0\.1:\d+)"


class Shop:
    """A running service, a connection to its database, and a client for its requests."""

    def __init__(self, service: Program, db: asyncpg.Connection, http: httpx.AsyncClient) -> None:
        self.service = service
        self.db = db
        self.http = http

    async def mailed(self) -> list[tuple[int, int]]:
        """Job and order of each mail."""
        return [tuple(row) for row in await self.db.fetch("select job_id, order_id from mails order by job_id")]

    async def wait_for_mail(self) -> None:
        """Wait until a mail was sent and no job is left."""

        async def look() -> bool:
            return await self.db.fetchval(
                "select exists (select from mails) and not exists (select from asyncq._all_jobs())"
            )

        await wait_until(look, description="a mail, and no job")


@pytest.fixture
async def database(dsn: str) -> AsyncGenerator[str]:
    """The shop's database."""
    async with fresh_database(dsn) as name:
        yield name


@asynccontextmanager
async def shop(database: str, log: Path, **environment: str) -> AsyncGenerator[Shop]:
    """The service on a free port, ready."""
    command = ("uvicorn", "examples.fastapi_app.app:app", "--port", "0")
    with program(log, *command, DATABASE_URL=database, **environment) as service:
        base = (await service.says(URL))[1]
        db = await asyncpg.connect(database)
        async with httpx.AsyncClient(base_url=base, timeout=10) as http:
            yield Shop(service, db, http)
        await db.close(timeout=5)


async def test_an_order_that_commits_is_mailed_once_and_one_that_rolls_back_never(
    database: str, tmp_path: Path
) -> None:
    """The job is a row of the handler's transaction: it shares its fate."""
    async with shop(database, tmp_path / "log", SHOP_MAIL_S="0") as service:
        refused = await service.http.post("/orders", json=UNICORN)
        taken = await service.http.post("/orders", json=TEAPOT)
        await service.wait_for_mail()
        mailed = await service.http.get(f"/orders/{taken.json()['order_id']}/mails")
        orders = await service.db.fetchval("select count(*) from orders")

        assert (409, 201, 1) == (refused.status_code, taken.status_code, orders)
        assert ["a@b.c"] == mailed.json()
        assert [(taken.json()["job_id"], taken.json()["order_id"])] == await service.mailed()


async def test_a_job_that_ends_within_the_grace_period_is_finished_before_the_service_ends(
    database: str, tmp_path: Path
) -> None:
    """A deployment sends SIGTERM while jobs run: those that end in time run once."""
    async with shop(database, tmp_path / "log", SHOP_MAIL_S="0.5") as service:
        taken = await service.http.post("/orders", json=TEAPOT)
        await service.service.says("mailing order")
        await service.service.stop()

        assert [(taken.json()["job_id"], taken.json()["order_id"])] == await service.mailed()
        assert 0 == await service.db.fetchval("select count(*) from asyncq._all_jobs()")


async def test_a_job_that_outlasts_the_grace_period_runs_again_after_the_restart(database: str, tmp_path: Path) -> None:
    """It was cancelled before its mail: nothing was sent, and nothing is lost."""
    async with shop(database, tmp_path / "first", SHOP_MAIL_S="50", SHOP_GRACE_S="0.1") as first:
        taken = await first.http.post("/orders", json=TEAPOT)
        await first.service.says("mailing order")
        await first.service.stop()
        sent = await first.mailed()
        state = await first.db.fetchval("select asyncq._state(job) from asyncq._all_jobs() as job")

    async with shop(database, tmp_path / "second", SHOP_MAIL_S="0") as second:
        await second.wait_for_mail()

        assert ([], "available") == (sent, state)
        assert [(taken.json()["job_id"], taken.json()["order_id"])] == await second.mailed()


async def test_without_a_worker_of_its_own_the_service_only_adds(database: str, tmp_path: Path) -> None:
    """A larger shop runs its workers elsewhere: one environment variable decides."""
    async with shop(database, tmp_path / "log", SHOP_WORKER="0") as service:
        taken = await service.http.post("/orders", json=TEAPOT)
        workers, waiting = await service.db.fetchrow(
            "select (select count(*) from asyncq._workers), (select count(*) from asyncq.jobs where locked_at is null)"
        )

        assert (201, 0, 1) == (taken.status_code, workers, waiting)

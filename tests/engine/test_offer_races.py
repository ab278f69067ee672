"""Offers in the wrong moment: whatever breaks or comes between, the job of an add runs once, and soon."""

from collections.abc import AsyncIterator

import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted
from asyncq.engine import fetcher, looks
from tests.engine.conftest import MakeWorker
from tests.engine.seen import Seen
from tests.sql.session import Session, session
from tests.waiting import wait_until

AT_ONCE = True
SOON_S = 5.0
STANDS = "select exists (select from asyncq._offers where token is not null and job_id is null)"


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look is expensive: on a busy machine a worker would make no offer."""
    monkeypatch.setattr(looks, "CHEAP_S", 60.0)
    monkeypatch.setattr(fetcher, "CHEAP_S", 60.0)


@pytest.fixture
async def sql(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session that commits each statement."""
    async with session(dsn, schema) as opened:
        yield opened


async def stands(sql: Session) -> None:
    """Wait until an offer is made."""
    await wait_until(lambda: sql.value(STANDS), description="an offer")


async def add(sql: Session) -> int:
    """Add a job as a client does that commits at once."""
    ((job_id,),) = await sql.run("add_keyless_job", "nothing", "{}", *[None] * 6, AT_ONCE)
    return job_id


@pytest.mark.parametrize("mark", ['"', "\\", "\n", "ü", "\x01", "x"])
async def test_a_job_that_does_not_fit_into_a_notification_is_added_all_the_same(
    sql: Session, client: Client, seen: Seen, make_worker: MakeWorker, mark: str
) -> None:
    """What it says of itself is told as a text, in which each quotation mark takes two bytes."""
    async with make_worker(nothing).start():
        for count, length in enumerate((500, 1100, 2000, 3400, 6900), start=1):
            await stands(sql)
            await client.add_job(nothing, meta={"m": mark * length})
            await seen.wait_for(JobCompleted, count, limit_s=SOON_S)

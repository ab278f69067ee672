"""Offers in the wrong moment: whatever breaks or comes between, the job of an add runs once, and soon."""

from collections.abc import AsyncIterator

import anyio
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted
from asyncq.engine import fetcher, looks, lost_claims
from asyncq.engine.lost_claims import LostClaims
from asyncq.engine.observers import Observers
from asyncq.store.database import Database, Line
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


async def test_a_claim_that_is_lost_while_others_are_returned_does_not_wait(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken link loses an offer and the answer to a fetch at the same time."""
    line = Line(Database(dsn, schema), "test")
    lost = LostClaims(line, Observers([]))

    async def return_lost(_: Line, worker_id: int, tokens: list[int]) -> list[int]:
        if tokens == [1]:
            await anyio.sleep(0.01)
            lost.note(worker_id, 2)
        return []

    monkeypatch.setattr(lost_claims, "return_lost", return_lost)
    lost.note(7, 1)
    await lost.give_back()
    another = lost.is_time
    await lost.give_back()
    await line.close()

    assert (True, False) == (another, lost.is_time)


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

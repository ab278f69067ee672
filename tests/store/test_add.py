"""`store.add`: which statements add one job on a connection of our own, and on others."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq.domain.job import JobSpec
from asyncq.domain.result import Returns
from asyncq.store import add as adding
from asyncq.store.add import HandoffHints, add_jobs
from asyncq.store.database import Database
from tests.support.handoffs import CHANNEL, FIRST, HOLD, holders, open_slot
from tests.support.session import Session, session

SPEC = JobSpec(task="t")
MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
AWAITED = msgspec.structs.replace(SPEC, returns=Returns(watcher="asyncq:" + "0" * 32))
TAKE = "delete from asyncq._batches"
FILL, INSERT, CALL = "update asyncq._batches", "insert into asyncq._jobs", "asyncq._add_keyless_job("
BULK = "asyncq._add_many_jobs("


@pytest.fixture
async def idle(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A worker's connection that listens; its claims end with the test's schema."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
def sent(schema: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way was tried, in order."""
    ways: list[str] = []
    fetch = asyncpg.Connection.fetch

    async def noted(self: asyncpg.Connection, query: str, *args: Any, **options: Any) -> Any:
        found = [way for way in (FILL, TAKE, INSERT, CALL, BULK) if way.replace("asyncq.", f"{schema}.") in query]
        ways.extend(found[:1])
        return await fetch(self, query, *args, **options)

    monkeypatch.setattr(asyncpg.Connection, "fetch", noted)
    return ways


async def add(sql: Session, database: Database, hints: HandoffHints | None, spec: JobSpec = SPEC) -> int:
    """Add a job; its id."""
    (added,) = await add_jobs(database, sql.connection, [spec], hints=hints)
    return added.id


async def test_a_plain_add_is_one_insert_while_no_worker_opens_slots(
    sql: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one of a task whose name is not stored is left to the function for many jobs."""
    monkeypatch.setattr(adding, "LOOK_S", 60.0)
    hints = HandoffHints()
    for _ in range(3):
        await add(sql, database, hints)

    assert [INSERT, FILL, INSERT, BULK, INSERT, INSERT] == sent
    assert [None] * 3 == await holders(sql)


async def test_an_add_that_meets_a_slot_takes_it_and_the_next_one_fills_at_once(
    sql: Session, idle: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an add that finds no open slot, the next ones are inserted without a check for a while."""
    monkeypatch.setattr(adding, "LOOK_S", 60.0)
    hints = HandoffHints()
    worker = await open_slot(idle, FIRST)
    await add(sql, database, hints)
    await open_again(idle, worker)
    for _ in range(3):
        await add(sql, database, hints)

    assert [INSERT, FILL, FILL, FILL, INSERT, INSERT] == sent
    assert [FIRST, FIRST + 1, None, None] == sorted(await holders(sql), key=str)


async def test_an_awaited_add_that_meets_a_slot_takes_it_and_the_next_one_fills_at_once(
    sql: Session, idle: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its extras are those that the function stores. After an add that finds no slot, the next ones do not look."""
    monkeypatch.setattr(adding, "LOOK_S", 60.0)
    hints = HandoffHints()
    await open_slot(idle, FIRST)
    for _ in range(3):
        await add(sql, database, hints, AWAITED)
    extras = await sql.values("select extras::text || keep_until from asyncq._jobs")

    assert [TAKE, TAKE, CALL, CALL] == sent
    assert [FIRST, None, None] == await holders(sql)
    assert (1, 3) == (len({*extras}), len(extras))


@pytest.mark.parametrize("payload", ["x" * 999, "é" * 500], ids=["large", "large in bytes"])
async def test_a_job_that_fits_no_batch_is_inserted(
    sql: Session, idle: Session, database: Database, sent: list[str], payload: str
) -> None:
    """The statement that checks for a slot inserts it, without a second one."""
    await open_slot(idle, FIRST)
    await add(sql, database, HandoffHints(), JobSpec(task="t", payload=json.dumps(payload, ensure_ascii=False)))

    assert [INSERT] == sent
    assert [None] == await holders(sql)


async def test_of_many_adds_at_the_same_time_only_one_checks_for_a_slot_or_fills_one() -> None:
    """Each slot takes one job, so other adds of a burst would find none."""
    hints = HandoffHints()
    first = [hints.next_step("t") for _ in range(3)]
    hints.filled("t")
    then = [hints.next_step("t") for _ in range(3)]
    hints.filled("t")

    assert ["look", "insert", "insert"] == first
    assert ["fill", "insert", "insert"] == then
    assert ("fill", "look") == (hints.next_step("t"), hints.next_step("u"))


@pytest.mark.parametrize("option", [{"queue": "q"}, {"run_at": MOMENT}, {"flags": ("f",)}, {"meta": "{}"}], ids=str)
async def test_a_job_that_is_not_plain_is_added_by_the_function_even_if_slots_are_open(
    sql: Session, idle: Session, database: Database, sent: list[str], option: dict[str, Any]
) -> None:
    """Its queue may be busy, its flag forbidden, or an earlier job first."""
    await open_slot(idle, FIRST)
    await add(sql, database, HandoffHints(), JobSpec(task="t", **option))

    assert [CALL] == sent
    assert [None] == await holders(sql)


async def test_once_no_worker_opens_slots_any_more_an_add_is_one_insert_again(
    dsn: str, sql: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the worker was killed, since its lock ends with its connection."""
    monkeypatch.setattr(adding, "LOOK_S", 60.0)
    hints = HandoffHints()
    async with session(dsn, sql.schema) as idle:
        await open_slot(idle, FIRST)
        await add(sql, database, hints)
    for _ in range(2):
        await add(sql, database, hints)

    assert [INSERT, FILL, FILL, INSERT, INSERT] == sent


async def test_while_slots_are_for_other_tasks_an_add_does_not_check_each_time(
    sql: Session, idle: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It checks again after a moment, and takes the new slot."""
    monkeypatch.setattr(adding, "LOOK_S", 0.2)
    hints = HandoffHints()
    worker = await open_slot(idle, FIRST, task="u")
    for _ in range(3):
        await add(sql, database, hints)
    first, sent[:] = list(sent), []
    await open_slot(idle, FIRST + 1, worker=worker)
    await asyncio.sleep(0.2)
    for _ in range(2):
        await add(sql, database, hints)

    assert [INSERT, FILL, INSERT, INSERT, INSERT] == first
    assert [INSERT, FILL, FILL, INSERT] == sent
    assert [None, None, None, FIRST + 1, None] == await holders(sql)


async def open_again(sql: Session, worker: int) -> None:
    """Open the worker's next slot, after it received the claim of the first one."""
    ((is_made,),) = await sql.run("open_slot", worker, FIRST + 1, FIRST, "{1}", "{1}", CHANNEL, not HOLD)
    assert is_made


async def test_without_prepared_statements_or_in_a_transaction_the_function_adds(
    sql: Session, idle: Session, database: Database, sent: list[str]
) -> None:
    """Planning the insert for each add would take longer, and a worker would wait for the end of the transaction."""
    await open_slot(idle, FIRST)
    await add(sql, database, None)

    assert [CALL] == sent
    assert [None] == await holders(sql)

"""Which way an add goes that commits at once: one insert, one statement that fills an offer, or the function."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncq.domain.job import JobSpec
from asyncq.store import at_once as ways
from asyncq.store.adding import add_jobs
from asyncq.store.at_once import AtOnce
from asyncq.store.database import Database
from tests.sql.offering import CHANNEL, FIRST, HOLD, holders, offering
from tests.sql.session import Session, session

SPEC = JobSpec(task="t")
MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
FILL, INSERT, CALL = "update asyncq._batches", "insert into asyncq._jobs", "asyncq._add_keyless_job("
BULK = "asyncq._add_many_jobs("


@pytest.fixture
async def idle(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A worker's connection that listens; what it has claimed is left to nobody."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
def sent(schema: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way was tried, in order."""
    ways: list[str] = []
    fetch = asyncpg.Connection.fetch

    async def noted(self: asyncpg.Connection, query: str, *args: Any, **options: Any) -> Any:
        ways.extend(way for way in (FILL, INSERT, CALL, BULK) if way.replace("asyncq.", f"{schema}.") in query)
        return await fetch(self, query, *args, **options)

    monkeypatch.setattr(asyncpg.Connection, "fetch", noted)
    return ways


async def add(sql: Session, database: Database, at_once: AtOnce | None, spec: JobSpec = SPEC) -> int:
    """Add a job; its id."""
    (added,) = await add_jobs(database, sql.connection, [spec], at_once=at_once)
    return added.id


async def test_an_add_is_one_insert_while_nobody_makes_offers(
    sql: Session, database: Database, sent: list[str]
) -> None:
    """The first one of a task whose name is not stored goes the whole way."""
    at_once = AtOnce(keeps_statements=True)
    for _ in range(3):
        await add(sql, database, at_once)

    assert [INSERT, CALL, BULK, INSERT, INSERT] == sent
    assert [None] * 3 == await holders(sql)


async def test_an_add_that_meets_an_offer_takes_it_and_the_next_one_asks_at_once(
    sql: Session, idle: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it finds none that stands, it is inserted, and those after it do not look for a while."""
    monkeypatch.setattr(ways, "BLIND_S", 60.0)
    at_once = AtOnce(keeps_statements=True)
    worker = await offering(idle, FIRST)
    await add(sql, database, at_once)
    await offering_again(idle, worker)
    for _ in range(3):
        await add(sql, database, at_once)

    assert [INSERT, CALL, FILL, FILL, INSERT, INSERT] == sent
    assert [FIRST, FIRST + 1, None, None] == sorted(await holders(sql), key=str)


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(task="t", payload=json.dumps("x" * 999)),
        JobSpec(task="t", payload=json.dumps("é" * 500, ensure_ascii=False)),
        JobSpec(task="t", meta="{}"),
    ],
    ids=["large", "large in bytes", "meta"],
)
async def test_what_no_batch_has_room_for_is_handed_over_by_the_function(
    sql: Session, idle: Session, database: Database, sent: list[str], spec: JobSpec
) -> None:
    """As a row of its own."""
    at_once = AtOnce(keeps_statements=True)
    worker = await offering(idle, FIRST)
    await add(sql, database, at_once)
    await offering_again(idle, worker)
    await add(sql, database, at_once, spec)

    assert [INSERT, CALL, CALL] == sent
    assert 1 == await sql.value("select count(*) from asyncq._jobs where lock_token = $1", FIRST + 1)


async def test_jobs_of_handlers_that_take_the_context_are_handed_over_by_the_function(
    sql: Session, idle: Session, database: Database, sent: list[str]
) -> None:
    """Their offers are of no batch: it is not tried to fill one."""
    at_once = AtOnce(keeps_statements=True)
    worker = await offering(idle, FIRST, packs=False)
    await add(sql, database, at_once)
    await offering_again(idle, worker, packs=False)
    await add(sql, database, at_once)

    assert [INSERT, CALL, CALL] == sent
    assert [FIRST, FIRST + 1] == await holders(sql)


@pytest.mark.parametrize("spec", [SPEC, JobSpec(task="t", meta="{}")], ids=["fill_offer", "add_at_once"])
async def test_of_many_adds_at_once_one_takes_an_offer(spec: JobSpec) -> None:
    """Each offer is for one job: others would ask in vain, in a burst over as many connections as there are."""
    at_once = AtOnce(keeps_statements=True)
    first = [at_once.way(SPEC) for _ in range(3)]
    at_once.learn("t", packs=True)
    then = [at_once.way(spec) for _ in range(3)]
    at_once.learn("t", packs=True)
    last = at_once.way(SPEC)

    insert = "insert_plain_job" if spec is SPEC else "insert_job"
    assert [("insert_plain_job", looks) for looks in (True, False, False)] == first
    assert [at_once.way(spec)] * 2 == then[1:] == [(insert, False)] * 2
    assert ("fill_offer" if spec is SPEC else "add_at_once", "fill_offer") == (then[0][0], last[0])


@pytest.mark.parametrize("meta", [None, "{}"], ids=["plain", "with meta"])
async def test_the_first_add_that_meets_an_offer_inserts_nothing(
    sql: Session, idle: Session, database: Database, sent: list[str], meta: str | None
) -> None:
    """It only looks, and the function hands the job over."""
    await offering(idle, FIRST)
    await add(sql, database, AtOnce(keeps_statements=True), JobSpec(task="t", meta=meta))

    assert [INSERT, CALL] == sent
    assert [FIRST] == await holders(sql)


@pytest.mark.parametrize("option", [{"queue": "q"}, {"run_at": MOMENT}, {"flags": ("f",)}], ids=str)
async def test_what_needs_a_decision_is_inserted_whatever_is_offered(
    sql: Session, idle: Session, database: Database, sent: list[str], option: dict[str, Any]
) -> None:
    """A queue may be busy, a flag forbidden, an earlier job be first."""
    at_once = AtOnce(keeps_statements=True)
    await offering(idle, FIRST)
    await add(sql, database, at_once, JobSpec(task="t", **option))

    assert [INSERT] == sent
    assert [None] == await holders(sql)


async def test_once_nobody_makes_offers_any_more_an_add_is_one_insert_again(
    dsn: str, sql: Session, database: Database, sent: list[str]
) -> None:
    """Also where the worker was killed: its lock ends with its connection."""
    at_once = AtOnce(keeps_statements=True)
    async with session(dsn, sql.schema) as idle:
        await offering(idle, FIRST)
        await add(sql, database, at_once)
    for _ in range(2):
        await add(sql, database, at_once)

    assert [INSERT, CALL, FILL, INSERT, INSERT] == sent


async def test_while_offers_are_for_other_tasks_an_add_does_not_look_for_one_each_time(
    sql: Session, idle: Session, database: Database, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again after a moment, and takes the offer that has come."""
    monkeypatch.setattr(ways, "BLIND_S", 0.2)
    at_once = AtOnce(keeps_statements=True)
    worker = await offering(idle, FIRST, task="u")
    for _ in range(3):
        await add(sql, database, at_once)
    first, sent[:] = list(sent), []
    await offering(idle, FIRST + 1, worker=worker)
    await asyncio.sleep(0.2)
    for _ in range(2):
        await add(sql, database, at_once)

    assert [INSERT, CALL, INSERT, INSERT] == first
    assert [INSERT, CALL, FILL, INSERT] == sent
    assert [None, None, None, FIRST + 1, None] == await holders(sql)


async def offering_again(sql: Session, worker: int, *, packs: bool = True) -> None:
    """The worker has heard that its first offer was taken, and makes the next."""
    packable = "{1}" if packs else "{}"
    ((is_made,),) = await sql.run("make_offer", worker, FIRST + 1, FIRST, "{1}", packable, CHANNEL, not HOLD)
    assert is_made


@pytest.mark.parametrize("at_once", [None, AtOnce(keeps_statements=False)], ids=["a caller's", "a pooler's"])
async def test_where_statements_may_not_be_kept_the_function_adds(
    sql: Session, database: Database, sent: list[str], at_once: AtOnce | None
) -> None:
    """To plan the insert for each add would take longer than the function, whose plan the server's session keeps."""
    await sql.execute("select asyncq._store_tasks('{t}')")
    await add(sql, database, at_once)

    assert [CALL] == sent

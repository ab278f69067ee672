"""`Shortcut`: the most frequent add is one insert over a connection at hand; all others go the long way."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import asyncpg
import pytest

from asyncq.domain.deduplication import UniquePolicy
from asyncq.domain.errors import StoreError, StoreUnavailable
from asyncq.domain.job import JobSpec
from asyncq.store.at_once import AtOnce
from asyncq.store.client_pool import ClientPool, tidy
from asyncq.store.database import Database, set_up
from asyncq.store.shortcut import Shortcut
from tests.sql.session import Session
from tests.waiting import wait_until

SPEC = JobSpec(task="t")
WAITING = "from pg_stat_activity where application_name = 'asyncq client' and wait_event_type = 'Lock'"
SPECIAL: list[dict[str, Any]] = [
    {"queue": "q"},
    {"run_at": datetime(2000, 1, 1, tzinfo=UTC)},
    {"flags": ("f",)},
    {"meta": "{}"},
    {"job_key": "k"},
    {"unique": UniquePolicy(period=timedelta(hours=1))},
    {"singleton": True},
    {"idempotency_key": "i"},
]


@pytest.fixture
async def spares(database: Database) -> AsyncIterator[ClientPool]:
    """One connection, at hand."""
    made = ClientPool(await database.pool("client", 1, reset=tidy, init=set_up))
    await made.release(await made.acquire(), is_well=True)
    yield made
    await made.close()


@pytest.fixture
async def at_once(sql: Session) -> AtOnce:
    """Nobody offers to take a job of the task, whose name is stored."""
    await sql.execute("select asyncq._store_tasks('{t}')")
    made = AtOnce(keeps_statements=True)
    made.blind_until["t"] = float("inf")
    return made


@pytest.fixture
async def shortcut(database: Database, spares: ClientPool, at_once: AtOnce) -> Shortcut:
    """A shortcut that can be taken."""
    return Shortcut(database, spares, at_once)


def is_at_hand(spares: ClientPool) -> bool:
    """Whether a connection is; it stays there."""
    connection = spares.at_hand()
    return connection is not None and spares.keep(connection)


async def count(sql: Session) -> int:
    """How many jobs there are."""
    found: int = await sql.value("select count(*) from asyncq._jobs")
    return found


async def test_a_plain_job_is_added_with_its_own_options(shortcut: Shortcut, spares: ClientPool, sql: Session) -> None:
    """And the connection is at hand again."""
    added = await shortcut.add(JobSpec(task="t", payload='{"a":1}', max_attempts=3, priority=-7))
    plain = await shortcut.add(SPEC)
    rows = await sql.rows("select id, payload, max_attempts, priority from asyncq._jobs order by id")

    assert added is not None
    assert plain is not None
    assert [(added.id, {"a": 1}, 3, -7), (plain.id, {}, 25, 0)] == [
        (row["id"], json.loads(row["payload"]), row["max_attempts"], row["priority"]) for row in rows
    ]
    assert is_at_hand(spares)


@pytest.mark.parametrize("special", SPECIAL, ids=lambda special: next(iter(special)))
async def test_a_job_that_asks_for_something_special_goes_the_long_way(
    shortcut: Shortcut, sql: Session, special: dict[str, Any]
) -> None:
    """The insert knows nothing of it."""
    assert (await shortcut.add(JobSpec(task="t", **special)), await count(sql)) == (None, 0)


async def test_every_option_of_a_job_is_plain_or_special() -> None:
    """A new one must not get lost on the way; who asks for a policy's force, rerun or subject has the policy too."""
    plain = {"task", "payload", "max_attempts", "priority"}
    with_others = {"job_key_mode", "subject", "force", "rerun"}

    assert set(JobSpec.__struct_fields__) == plain | with_others | {next(iter(special)) for special in SPECIAL}


@pytest.mark.parametrize("packs", [True, False])
async def test_while_an_offer_may_stand_adds_go_the_long_way(
    shortcut: Shortcut, at_once: AtOnce, sql: Session, *, packs: bool
) -> None:
    """That looks for one."""
    at_once.learn("t", packs=packs)
    met = await shortcut.add(SPEC)
    at_once.blind_until["t"] = asyncio.get_running_loop().time()

    assert (None, None, 0) == (met, await shortcut.add(SPEC), await count(sql))


async def test_after_a_look_in_vain_adds_take_the_shortcut_for_a_moment(shortcut: Shortcut, at_once: AtOnce) -> None:
    """The long way is that look."""
    at_once.blind_until.clear()
    before = await shortcut.add(SPEC)
    way = at_once.way(SPEC)
    at_once.learn("t", packs=None)

    assert (None, ("insert_plain_job", True)) == (before, way)
    assert await shortcut.add(SPEC)


async def test_without_a_connection_at_hand_an_add_goes_the_long_way(
    shortcut: Shortcut, spares: ClientPool, sql: Session
) -> None:
    """That waits for one."""
    busy = await spares.acquire()
    met = await shortcut.add(SPEC)
    await spares.release(busy, is_well=True)

    assert (None, 0) == (met, await count(sql))


async def test_a_task_whose_name_is_not_stored_goes_the_long_way(
    shortcut: Shortcut, spares: ClientPool, at_once: AtOnce, sql: Session
) -> None:
    """That stores it."""
    at_once.blind_until["new"] = float("inf")
    met = await shortcut.add(JobSpec(task="new"))

    assert (None, 0) == (met, await count(sql))
    assert is_at_hand(spares)


async def test_what_the_server_refuses_is_told_in_words_of_ours(shortcut: Shortcut, sql: Session) -> None:
    """And the connection goes back to the driver, which makes it usable again."""
    with pytest.raises(StoreError):
        await shortcut.add(JobSpec(task="t", payload="no JSON"))

    assert await count(sql) == 0


async def test_a_connection_that_breaks_under_an_add_is_given_up(
    shortcut: Shortcut, spares: ClientPool, sql: Session, other: Session
) -> None:
    """Nobody knows whether the job was added."""
    await other.execute("begin")
    await other.execute("lock asyncq._jobs")
    async with asyncio.TaskGroup() as group:
        adding = group.create_task(outcome_of(shortcut.add(SPEC)))
        await wait_until(lambda: sql.value(f"select count(pg_terminate_backend(pid)) {WAITING}"), description="its end")
        error = await adding
    await other.execute("rollback")

    assert isinstance(error, StoreUnavailable)
    assert "unknown" == error.outcome
    assert not is_at_hand(spares)


async def test_a_cancelled_add_leaves_no_connection_in_the_middle_of_it(
    shortcut: Shortcut, spares: ClientPool, sql: Session, other: Session
) -> None:
    """The driver asks the server to stop, and has the connection back."""
    await other.execute("begin")
    await other.execute("lock asyncq._jobs")
    async with anyio.create_task_group() as group:
        group.start_soon(shortcut.add, SPEC)
        await wait_until(lambda: sql.value(f"select count(*) {WAITING}"), description="the add to wait")
        group.cancel_scope.cancel()
    await other.execute("rollback")

    assert not is_at_hand(spares)
    connection = await spares.acquire()
    assert 1 == await connection.fetchval("select 1")
    await spares.release(connection, is_well=True)


async def test_who_waits_for_a_connection_gets_the_one_that_an_add_gives_back(
    shortcut: Shortcut, spares: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for ever for one that was kept."""
    fetch = asyncpg.Connection.fetch
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting: list[asyncio.Task[Any]] = []

        async def meanwhile(self: asyncpg.Connection, query: str, *args: Any) -> Any:
            waiting.append(group.create_task(spares.acquire()))
            await asyncio.sleep(0.05)
            return await fetch(self, query, *args)

        monkeypatch.setattr(asyncpg.Connection, "fetch", meanwhile)
        added = await shortcut.add(SPEC)
    await spares.release(await waiting[0], is_well=True)

    assert added is not None


async def outcome_of(adding: Awaitable[object]) -> BaseException | None:
    """The error of an add, None if it went well."""
    try:
        await adding
    except StoreUnavailable as error:
        return error
    return None


async def test_a_process_that_was_forked_takes_the_long_way(
    shortcut: Shortcut, sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connections at hand are those of the other process."""
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        met = await shortcut.add(SPEC)

    assert (None, 0) == (met, await count(sql))


async def test_another_event_loop_takes_the_long_way(shortcut: Shortcut, sql: Session) -> None:
    """The connections at hand are bound to the first one."""
    met = await asyncio.to_thread(lambda: asyncio.run(shortcut.add(SPEC)))

    assert (None, 0) == (met, await count(sql))

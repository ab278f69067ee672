"""A client from its opening to its closing: cancelled calls, other processes, other loops, other isolation levels."""

import asyncio
import os
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from anyio.to_thread import run_sync

import asyncq.client
from asyncq import AccessDenied, Client, ConfigurationError, StoreUnavailable, Worker
from tests.engine.faults import link_to
from tests.faces.test_client_retries import ADDED
from tests.waiting import LIMIT_S


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda dsn: Client(dsn, pool_size="10"), "pool_size must be a whole number from 1 to 1000, got '10'"),
        (lambda dsn: Client(dsn, max_payload=1.5), "max_payload must be a whole number from 1 to 16777216, got 1.5"),
        (lambda dsn: Client(dsn, retry_for="30"), "retry_for is a timedelta or a number of seconds, got '30'"),
        (lambda dsn: Client(dsn, schema=None), "schema None cannot be used"),
        (lambda dsn: Worker(dsn, [], schema=None), "schema None cannot be used"),
        (lambda dsn: Worker(dsn, [], listen="0"), "listen must be True or False, got '0'"),
        (lambda dsn: Worker(dsn, [], migrate="0"), "migrate must be True or False, got '0'"),
        (
            lambda dsn: Worker(dsn, []),
            r"tasks is empty, so that this worker would run no job: Worker\(dsn, \[task, ...\]\)",
        ),
        (lambda dsn: Worker(dsn, None), "tasks must be a list of functions decorated with @task, got None"),
        (
            lambda dsn: Worker(dsn, "app.tasks"),
            "tasks must be a list of functions decorated with @task, got 'app.tasks'",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(make: Any, said: str) -> None:
    """From the environment all come as texts, and a text that is not empty would be true."""
    with pytest.raises(ConfigurationError, match=said):
        make("postgresql:///app")


async def test_a_call_that_is_cancelled_ends_although_nobody_answers(dsn: str, schema: str) -> None:
    """The driver asks the server to stop the statement; nobody may have to wait for that either."""
    async with link_to(dsn) as link:
        client = Client(link.dsn, schema=schema)
        await client.open()
        await client.admin.counts()
        link.freeze("client")
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.admin.counts()
            await client.close()

        assert link.count("client")


async def test_a_call_that_is_cancelled_before_its_statement_ran_leaves_no_transaction_open(
    client: Client, schema: str, db: asyncpg.Connection
) -> None:
    """With its locks it would be in the way of a migration, and with its time the next call would be of the past."""
    state = "select state from pg_stat_activity where application_name = $1"
    with suppress(asyncio.CancelledError):
        async with client._connection() as connection:
            # As far as the driver comes with a statement that it has not run before.
            await connection.prepare(f"select from {schema}._jobs")
            was = await db.fetchval(state, f"{schema} client")
            raise asyncio.CancelledError

    assert ("active", "idle") == (was, await db.fetchval(state, f"{schema} client"))


@pytest.mark.parametrize("where", ["process", "event loop"])
async def test_a_client_is_opened_in_another_place_although_an_opening_was_left_half_done(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A fork takes along what another task began, a loop that is closed leaves it behind: nobody goes on with it."""
    client, begun = Client(dsn, schema=schema), asyncio.Event()

    async def get_stuck() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def open_and_close() -> None:
        async with asyncio.timeout(5), client:
            await client.admin.now()

    async with asyncio.TaskGroup() as group:
        with monkeypatch.context() as stuck:
            stuck.setattr(client, "_open", get_stuck)
            left = group.create_task(client.open())
            await begun.wait()
        with monkeypatch.context() as other:
            if where == "process":
                other.setattr(asyncq.client.os, "getpid", lambda: -1)
                await open_and_close()
            else:
                await run_sync(asyncio.run, open_and_close())
        left.cancel()

    assert client._pool is None


async def test_a_client_that_two_open_at_once_is_open_although_one_is_cancelled(dsn: str, schema: str) -> None:
    """As by two requests of a service that opens it when it is first needed, the first of which is given up."""
    client = Client(dsn, schema=schema)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(client.open())
        while client._pool is None:
            await asyncio.sleep(0)
        second = group.create_task(client.open())
        await asyncio.sleep(0)
        first.cancel()
    now = await client.admin.now()
    await client.close()

    assert (True, None) == (first.cancelled(), second.result())
    assert now


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_client_works_at_read_committed_whatever_its_role_is_used_to(
    dsn: str, schema: str, client: Client, level: str
) -> None:
    """Its statements are made for that: a cleanup is refused at others, and what changes jobs meets conflicts."""
    options = level.replace(" ", "%5C%20")
    async with Client(f"{dsn}&options=-c%20default_transaction_isolation%3D{options}", schema=schema) as used:
        async with used._connection() as connection:
            actual = await connection.fetchval("select current_setting('transaction_isolation')")
            plans = await connection.fetchrow("select current_setting('enable_seqscan'), current_setting('jit')")
        removed = await used.admin.cleanup()

    assert ("read committed", ("off", "off")) == (actual, tuple(plans))
    assert {"GC_JOB_QUEUES": 0, "GC_TASK_IDENTIFIERS": 0} == removed


async def test_a_client_that_is_closed_in_a_forked_process_leaves_the_connections_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the process that opened it."""
    await client.add_job("pay")
    pool: Any = client._pool
    with monkeypatch.context() as forked:
        forked.setattr(asyncq.client.os, "getpid", lambda: -1)
        await client.close()
        reopened_by_mistake = client._pool
    connection = await pool.acquire()
    answer = await connection.fetchval("select 1")
    await pool.release(connection, is_well=True)
    await pool.close()

    assert (None, 1) == (reopened_by_mistake, answer)
    assert os.getpid() > 0


async def test_a_client_of_another_loop_is_neither_closed_nor_taken_for_open(client: Client) -> None:
    """It says so, and goes on in its own."""

    def elsewhere(call: Any) -> str:
        with pytest.raises(ConfigurationError) as caught:
            asyncio.run(call())
        return str(caught.value)

    said = [await run_sync(elsewhere, call) for call in (client.open, client.close)]
    added = await client.add_job("pay")

    assert ["the client was opened in another event loop: open one in each loop"] * 2 == said
    assert added.id


@pytest.mark.parametrize("error", [AccessDenied("no more"), ConfigurationError("closed meanwhile")])
async def test_an_add_whose_answer_was_lost_stays_unknown_whatever_its_further_tries_say(
    dsn: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The first one may have been committed; the caller has to know that nobody knows."""
    real, tries = Client._add_on, list[int]()

    async def add_on(client: Client, *args: Any) -> Any:
        tries.append(1)
        if len(tries) > 1:
            raise error
        return await real(client, *args)

    monkeypatch.setattr(Client, "_add_on", add_on)
    async with link_to(dsn) as link, Client(link.dsn, schema=schema) as client:
        link.cut_at_answer_with(ADDED)
        with pytest.raises(StoreUnavailable) as caught:
            await client.add_job("pay", idempotency_key="order-7")

    assert ("unknown", error) == (caught.value.outcome, caught.value.__cause__)
    assert 1 == await db.fetchval(f"select count(*) from {schema}._all_jobs()")

"""A client from its opening to its closing: cancelled calls, other processes, other loops, other isolation levels."""

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from anyio.to_thread import run_sync

import asyncq.client
from asyncq import AccessDenied, Client, ConfigurationError, JobCompleted, StoreUnavailable, Worker
from asyncq.testing import MovableClock
from tests.client.test_retries import ADDED
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until


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
            r"tasks is empty: this worker would run no job; write Worker\(dsn, \[task, ...\]\)",
        ),
        (lambda dsn: Worker(dsn, None), "tasks must be a list of functions decorated with @task, got None"),
        (
            lambda dsn: Worker(dsn, "app.tasks"),
            "tasks must be a list of functions decorated with @task, got 'app.tasks'",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(make: Any, said: str) -> None:
    """Values from the environment are text, and any text that is not empty would be true."""
    with pytest.raises(ConfigurationError, match=said):
        make("postgresql:///app")


async def test_a_cancelled_call_ends_although_the_server_does_not_answer(dsn: str, schema: str) -> None:
    """The driver asks the server to cancel the statement, and the caller must not wait for that either."""
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
    """An open transaction would block a migration with its locks, and would give the next call an old time."""
    state = "select state from pg_stat_activity where application_name = $1"
    with suppress(asyncio.CancelledError):
        async with client._connection() as connection:
            # As far as the driver comes with a statement that it has not run before.
            await connection.prepare(f"select from {schema}._jobs")
            was = await db.fetchval(state, f"{schema} client")
            raise asyncio.CancelledError

    assert ("active", "idle") == (was, await db.fetchval(state, f"{schema} client"))


@pytest.mark.parametrize("where", ["process", "event loop"])
async def test_a_client_is_opened_again_although_an_earlier_opening_was_left_unfinished(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A fork inherits an unfinished opening, and a closed loop leaves one behind: nothing would complete it."""
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
    """Two requests of a service may open it on first use, and the first one may be given up."""
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
async def test_a_client_works_at_read_committed_whatever_its_roles_default(
    dsn: str, schema: str, client: Client, level: str
) -> None:
    """Under other isolation levels cleanups are refused, and changes of jobs meet serialization conflicts."""
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
    """It raises, and works on in its own loop."""

    def elsewhere(call: Any) -> str:
        with pytest.raises(ConfigurationError) as caught:
            asyncio.run(call())
        return str(caught.value)

    said = [await run_sync(elsewhere, call) for call in (client.open, client.close)]
    added = await client.add_job("pay")

    assert ["the client was opened in another event loop: open one in each loop"] * 2 == said
    assert added.id


@pytest.mark.parametrize("error", [AccessDenied("no more"), ConfigurationError("closed meanwhile")])
async def test_an_add_whose_answer_was_lost_stays_unknown_whatever_its_further_tries_return(
    dsn: str, schema: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The first try may have been committed, so the caller must learn that the outcome is unknown."""
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


async def test_of_concurrent_blocks_the_last_one_closes_the_client(dsn: str, schema: str) -> None:
    """Requests of a service that share one client: the first to leave must not close it for the others."""
    client, left, entered = Client(dsn, schema=schema), asyncio.Event(), 0

    async def enter(number: int) -> None:
        nonlocal entered
        async with client:
            entered += 1
            await wait_until(lambda: entered == 5, description="all to be in it")
            if number:
                await left.wait()
            await client.admin.now()
        left.set()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(enter(number))

    assert client._pool is None


async def test_nested_blocks_leave_the_client_as_they_found_it(dsn: str, schema: str) -> None:
    """A function may enter the client that its caller is in; afterwards it can be entered again."""
    client = Client(dsn, schema=schema)
    for _ in range(2):
        async with client:
            async with client:
                pass
            await client.admin.now()
        with pytest.raises(ConfigurationError, match="the client is not open"):
            await client.admin.now()


async def test_open_keeps_the_client_open_until_close(dsn: str, schema: str) -> None:
    """Blocks may be entered before, meanwhile or after."""
    client = Client(dsn, schema=schema)
    async with client:
        await client.open()
    async with client:
        pass
    await client.admin.now()
    async with client:
        await client.close()
        with pytest.raises(ConfigurationError, match="the client is not open"):
            await client.admin.now()
        async with client:
            await client.admin.now()
        await client.close()

    assert client._pool is None


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_block_that_is_cancelled_while_it_is_entered_leaves_no_connection_and_takes_none(
    dsn: str, schema: str, *, leaves_first: bool
) -> None:
    """A block that ends meanwhile leaves the client open for the block that begins; an open block is not disturbed."""
    client, first = Client(dsn, schema=schema), AsyncExitStack()

    async def enter() -> None:
        async with client:
            raise AssertionError("it was cancelled before")

    async with asyncio.TaskGroup() as group:
        await first.enter_async_context(client)
        async with client._use().opening:
            second = group.create_task(enter())
            await wait_until(lambda: client._use().blocks == 2, description="the second block to wait")
            if leaves_first:
                await first.aclose()
            was_open = client._pool is not None
            second.cancel()
            await asyncio.wait({second})
        is_open = client._pool is not None
        await first.aclose()

    assert (True, not leaves_first, None) == (was_open, is_open, client._pool)


async def test_a_block_that_cannot_open_the_client_counts_for_nothing(dsn: str, schema: str) -> None:
    """The next one opens it, and closes it."""
    async with link_to(dsn) as link:
        client = Client(link.dsn, schema=schema)
        link.refuse("client")
        with pytest.raises(StoreUnavailable):
            async with client:
                raise AssertionError("it was opened")
        link.mend()
        async with client:
            await client.admin.now()

    assert (None, 0) == (client._pool, client._use().blocks)


async def test_a_client_in_use_cannot_be_closed_from_another_event_loop(dsn: str, schema: str) -> None:
    """The count of the blocks is that of the loop in which it is open."""
    client = Client(dsn, schema=schema)

    async def enter() -> None:
        async with client:
            raise AssertionError("it was entered")

    async with client:
        async with client:
            with pytest.raises(ConfigurationError, match="another event loop"):
                await run_sync(asyncio.run, enter())
        await client.admin.now()

    assert client._pool is None


async def test_a_worker_that_is_started_twice_goes_on_although_the_second_start_is_refused(
    dsn: str, schema: str, client: Client
) -> None:
    """The refused one must not stop it on its way out; after its end it may be started again."""
    seen = Seen()
    worker = Worker(dsn, [asyncq.task(idle)], schema=schema, observers=[seen])
    for number in (1, 2):
        async with worker.start():
            for _ in range(2):
                with pytest.raises(ConfigurationError, match="this worker already runs"):
                    async with worker.start():
                        raise AssertionError("it was started")
            with pytest.raises(ConfigurationError, match="this worker already runs"):
                await worker.run_once()
            await client.add_job("idle")
            await seen.wait_for(JobCompleted, number)


async def idle() -> None:
    """The least job."""


async def test_of_several_blocks_the_last_one_puts_the_clock_right(dsn: str, schema: str) -> None:
    """A fixture and a test may both be in it."""
    clock = MovableClock(dsn, schema)
    async with clock:
        async with clock:
            await clock.move(timedelta(days=1))
        inside = await clock.now()
    after = await clock.now()

    assert timedelta(hours=23) < inside - after < timedelta(hours=25)

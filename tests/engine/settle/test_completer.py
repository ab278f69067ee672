"""The completer writes the results of runs in batches, once, even if its connection fails."""

import asyncio
import itertools
from collections.abc import Collection
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, JobState, Snooze, StoreUnavailable, Worker, task
from asyncq.domain.events import (
    JobCancelled,
    JobCompleted,
    JobLost,
    JobsRescued,
    JobStarted,
    SettleFailed,
    SettlementsAbandoned,
    WorkerStopped,
)
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Ending, Settlement
from asyncq.engine import supervisor
from asyncq.engine.fetch import schedule
from asyncq.engine.settle import completer, outbox
from asyncq.store import database
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_fetcher import intercept
from tests.support.faults import link_to, terminate
from tests.support.seen import Seen
from tests.support.session import session
from tests.support.waiting import wait_until
from tests.support.write_gate import Gate


@task
async def nothing() -> None:
    """The least job."""


async def test_a_completion_is_reported_only_after_its_commit(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate
) -> None:
    """Otherwise metrics and tests would count jobs whose completion a crash undoes."""
    async with make_worker(nothing).start():
        added = await client.add_job(nothing)
        await wait_until(lambda: bool(gate.batches), description="the write to begin")
        before = (seen.ids(JobCompleted), (await client.get_job(added.id)).state)
        gate.opened.set()
        await seen.wait_for(JobCompleted)

    assert ([], JobState.ACTIVE) == before


async def test_jobs_that_end_during_a_write_are_written_in_one_batch(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate
) -> None:
    """The first result is written at once, the others follow together: low latency when idle, batches under load."""
    async with make_worker(nothing, concurrency=1).start():
        await client.add_job(nothing)
        await wait_until(lambda: bool(gate.batches), description="the first write to begin")
        for _ in range(20):
            await client.add_job(nothing)
        await seen.wait_for(JobStarted, 21)
        gate.opened.set()
        await seen.wait_for(JobCompleted, 21)

    assert [1, 20] == gate.batches


async def test_job_loops_wait_when_writing_does_not_keep_up(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a database that hangs would fill the memory, and more jobs would be repeated after a crash."""
    monkeypatch.setattr(outbox, "FULL", 3)
    async with make_worker(nothing, concurrency=1).start():
        for _ in range(20):
            await client.add_job(nothing)
        # One is being written, three wait, and with the fourth the loop waits.
        await seen.wait_for(JobStarted, 4)
        await client.get_job((await client.add_job(nothing)).id)
        held = len(seen.of(JobStarted))
        gate.opened.set()
        await seen.wait_for(JobCompleted, 21)

    assert 4 == held


async def test_a_settlement_survives_the_end_of_its_connection(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A lost connection costs time, never a completion: a job that ran must not run again."""
    async with make_worker(nothing).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        cut = await terminate(db, schema, "settle")
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted, 2)

    assert (1, 2, []) == (cut, len(seen.of(JobStarted)), seen.of(JobLost))


async def test_a_settlement_whose_answer_is_lost_is_reported_once_and_as_done(
    dsn: str, schema: str, client: Client, seen: Seen
) -> None:
    """It was committed: a lost claim would be a false alarm, and a completion would be missing."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async with link_to(dsn) as link, Worker(link.dsn, [nothing, wait], schema=schema, observers=[seen]).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        added = await client.add_job(wait)
        await entered.wait()
        link.cut_at_statement("settle", "after", "settle_completed(")
        leave.set()
        await seen.wait_for(JobCompleted, 2)

    assert {"after": 1} == link.cuts
    assert (1, []) == (seen.ids(JobCompleted).count(added.id), seen.of(JobLost))
    assert 1 <= len(seen.of(SettleFailed))


async def test_statements_that_were_written_before_the_server_failed_are_done(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch takes several statements. If one was never sent, the earlier ones are still committed."""
    real = completer.store.settle_rest
    failed: list[Collection[Settlement]] = []

    async def settle_rest(line: Any, worker_id: int, settlements: Collection[Settlement]) -> Any:
        if not failed:
            failed.append(settlements)
            raise StoreUnavailable("the server cannot be reached", outcome="not_sent")
        return await real(line, worker_id, settlements)

    monkeypatch.setattr(completer.store, "settle_rest", settle_rest)
    async with make_worker(nothing, concurrency=1).start():
        await client.add_job(nothing)
        await wait_until(lambda: bool(gate.batches), description="the first write to begin")
        done, cancelled = await client.add_jobs([nothing.job(), nothing.job()])
        await seen.wait_for(JobStarted, 3)
        await client.admin.cancel_jobs([cancelled.id])
        gate.opened.set()
        await seen.wait_for(JobCancelled)

    assert [[cancelled.id]] == [[item.id for item in settlements] for settlements in failed]
    assert ([], True) == (seen.of(JobLost), done.id in seen.ids(JobCompleted))


async def test_a_queue_freed_by_a_settlement_whose_answer_is_lost_continues(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wake-up for the next job of the queue must not be lost with the answer."""
    monkeypatch.setattr(schedule, "TURN_S", -1)  # nothing follows in the same statement
    entered, leave = asyncio.Event(), asyncio.Event()

    @task(queue="line")
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [nothing, wait], schema=schema, observers=[seen], poll=60).start(),
    ):
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        await client.add_jobs([wait.job(), wait.job()])
        await entered.wait()
        link.cut_at_statement("settle", "after", "settle_completed(")
        leave.set()
        await seen.wait_for(JobCompleted, 3)

    assert (3, {"after": 1}) == (len(seen.of(JobStarted)), link.cuts)


async def test_a_row_that_is_locked_is_settled_later_and_delays_no_other(
    dsn: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A user's open transaction with one job must not stop the completions of all the others."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async with make_worker(wait, nothing).start():
        held = await client.add_job(wait, job_key="has a row")
        await entered.wait()
        async with db.transaction():
            await db.execute(f"select from {schema}._jobs where id = $1 for update", held.id)
            leave.set()
            for _ in range(10):
                await client.add_job(nothing)
            await seen.wait_for(JobCompleted, 10)
            others = set(seen.ids(JobCompleted))
        await seen.wait_for(JobCompleted, 11)

    assert held.id not in others
    assert held.id == seen.ids(JobCompleted)[-1]


async def test_job_loops_wait_when_very_many_rows_are_locked(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The number of unwritten results is bounded for any reason."""
    monkeypatch.setattr(outbox, "FULL", 2)
    monkeypatch.setattr(outbox, "HELD_BACK", 3)
    await client.add_jobs([nothing.job()] * 40)

    async def hold(claims: list[Claim]) -> None:
        if db.is_in_transaction():
            await db.execute(f"select from {schema}._jobs where locked_by is not null for update skip locked")

    intercept(monkeypatch, hold)
    await db.execute("begin")
    async with make_worker(nothing, concurrency=1).start():
        await seen.wait_for(JobStarted, 6)
        for _ in range(3):  # locked claims are tried again and again meanwhile
            await asyncio.sleep(outbox.LATER_S)
        held = len(seen.of(JobStarted))
        await db.execute("commit")
        await seen.wait_for(JobCompleted, 40)

    assert 6 <= held <= 8


async def test_a_row_that_was_locked_is_settled_even_when_the_worker_is_never_idle(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A busy worker always has newer results to write, which must not starve the older one."""
    entered, leave, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async def keep_busy() -> None:
        while not done.is_set():
            await client.add_job(nothing)
            await asyncio.sleep(0)

    async with make_worker(wait, nothing).start(), asyncio.TaskGroup() as group:
        held = await client.add_job(wait, job_key="has a row")
        await entered.wait()
        async with db.transaction():
            await db.execute(f"select from {schema}._jobs where id = $1 for update", held.id)
            leave.set()
            group.create_task(keep_busy())
            await seen.wait_for(JobCompleted, 10)
        await wait_until(lambda: held.id in seen.ids(JobCompleted), description="the held row to be settled")
        done.set()

    assert 1 == seen.ids(JobCompleted).count(held.id)


async def test_a_row_that_is_free_again_is_settled_however_many_others_are_locked(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """A transaction holds the rows of one job after the other: each of them put off the next try of all."""

    async def hold(connection: asyncpg.Connection, job_id: int) -> None:
        await connection.execute(f"select from {schema}._jobs where id = $1 for update", job_id)

    @task
    async def first(ctx: JobContext) -> None:
        await hold(db, ctx.job.id)

    @task
    async def further(ctx: JobContext) -> None:
        async with one_statement:
            await hold(other.connection, ctx.job.id)

    one_statement = asyncio.Lock()
    async with (
        session(dsn, schema) as other,
        make_worker(first, further, concurrency=1).start(),
        asyncio.TaskGroup() as group,
    ):
        await other.execute("begin")

        async def go_on() -> None:
            # Each with a key of its own: an add would wait for the locked row of another one.
            for number in itertools.count():
                if seen.of(JobCompleted):
                    break
                await client.add_job(further, job_key=f"has a row {number}")
                await asyncio.sleep(0.02)

        async with db.transaction():
            await client.add_job(first, job_key="has a row")
            await seen.wait_for(JobStarted)
            group.create_task(go_on())
            await seen.wait_for(JobStarted, 5)
        await seen.wait_for(JobCompleted)
        async with one_statement:
            await other.execute("commit")

    assert seen.of(JobStarted)[0].claim.id == seen.of(JobCompleted)[0].claim.id


async def test_a_run_that_lost_its_claim_is_reported_and_does_not_settle_the_second_run(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Only the second run may settle the job: otherwise the job would be lost if its second run fails."""
    entered, leave = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]
    runs: list[int] = []

    @task
    async def wait() -> None:
        number = len(runs)
        runs.append(number)
        entered[number].set()
        await leave[number].wait()

    async with make_worker(wait).start():
        added = await client.add_job(wait)
        await entered[0].wait()
        first = await db.fetchval(f"select locked_by from {schema}._all_jobs()")

        async def is_taken_over() -> bool:
            # Again and again: it lives, and a beat of it may come before the look of the other one.
            await db.execute(f"update {schema}._workers set last_seen = now() - interval '1 hour' where id = $1", first)
            return entered[1].is_set()

        async with make_worker(wait).start():
            await wait_until(is_taken_over, description="the other worker to take over")
            leave[0].set()
            await seen.wait_for(JobLost)
            still = (await client.get_job(added.id)).state
            leave[1].set()
            await seen.wait_for(JobCompleted)

    assert ([(added.id,)], JobState.ACTIVE) == ([event.job_ids for event in seen.of(JobsRescued)], still)
    assert ([added.id], [added.id]) == (seen.ids(JobLost), seen.ids(JobCompleted))


UNLOCK = "update {schema}._jobs set locked_by = null, locked_at = null, lock_token = null where id = $1"


@pytest.mark.parametrize("first_end", [None, Snooze(0)])
async def test_a_waiting_settlement_is_replaced_by_that_of_a_newer_claim(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    gate: Gate,
    db: asyncpg.Connection,
    schema: str,
    first_end: Snooze | None,
) -> None:
    """The worker lost the claim and got a newer one during another write. The older settlement is lost."""
    runs: list[int] = []

    @task
    async def run() -> None:
        runs.append(1)
        if len(runs) == 1 and first_end is not None:
            raise first_end

    async with make_worker(nothing, run).start():
        other = await client.add_job(nothing)
        await wait_until(lambda: bool(gate.batches), description="the other write to begin")
        added = await client.add_job(run)
        await wait_until(lambda: len(runs) == 1, description="the first run")
        await db.execute(f"select {schema}._split_batches_of_jobs(array[$1::bigint])", added.id)
        await db.execute(UNLOCK.format(schema=schema), added.id)
        await db.execute("select pg_notify($1, 'all')", f"{schema}:jobs")
        await wait_until(lambda: len(runs) == 2, description="the second run")
        gate.opened.set()
        await seen.wait_for(JobCompleted, 2)

    assert ([added.id], [other.id, added.id]) == (seen.ids(JobLost), seen.ids(JobCompleted))


async def test_a_delayed_settlement_is_replaced_by_that_of_a_newer_claim(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The holder of the row took the claim away, so the settlement of the first run is not repeated."""
    monkeypatch.setattr(outbox, "LATER_S", 3600.0)
    held_back = asyncio.Event()
    real = completer.store.settle_rest

    async def note(*args: Any) -> dict[int, Ending]:
        endings = await real(*args)
        if "held" in endings.values():
            held_back.set()
        return endings

    monkeypatch.setattr(completer.store, "settle_rest", note)
    entered, leave = asyncio.Event(), asyncio.Event()

    @task
    async def wait() -> None:
        entered.set()
        await leave.wait()

    async with make_worker(wait).start():
        added = await client.add_job(wait, job_key="has a row")
        await entered.wait()
        async with db.transaction():
            await db.execute(UNLOCK.format(schema=schema), added.id)
            leave.set()
            await held_back.wait()
        await db.execute("select pg_notify($1, 'all')", f"{schema}:jobs")
        await seen.wait_for(JobCompleted)

    assert ([added.id], [added.id]) == (seen.ids(JobLost), seen.ids(JobCompleted))
    assert [] == seen.of(SettlementsAbandoned)


async def test_a_failed_write_is_kept_and_tried_again(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent: when the server is back the same settlements are written."""
    real, failures = completer.store.complete, [StoreUnavailable("away"), StoreUnavailable("late", outcome="unknown")]

    async def fail_twice(*args: Any) -> set[int]:
        if failures:
            raise failures.pop(0)
        return await real(*args)

    monkeypatch.setattr(completer.store, "complete", fail_twice)
    added = await client.add_job(nothing)
    await make_worker(nothing).run_once()

    assert (["away", "late"], [added.id]) == (
        [event.error for event in seen.of(SettleFailed)],
        seen.ids(JobCompleted),
    )


async def test_a_write_on_a_half_open_connection_ends_at_its_deadline_and_is_made_on_a_new_one(
    dsn: str, schema: str, client: Client, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall that forgets a connection drops its packets in silence."""
    monkeypatch.setattr(database, "ANSWER_S", 0.3)
    async with link_to(dsn) as link, Worker(link.dsn, [nothing], schema=schema, observers=[seen], poll=60).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)
        link.freeze_open("settle")
        await client.add_job(nothing)
        await seen.wait_for(SettleFailed)
        await seen.wait_for(JobCompleted, 2)

    assert (2, []) == (len(seen.of(JobStarted)), seen.of(JobLost))


async def test_settlements_that_cannot_be_written_at_the_stop_are_reported_and_left_to_the_lease(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    db: asyncpg.Connection,
    schema: str,
) -> None:
    """The worker's row stays, so that others rescue the jobs when its lease has ended, and not before."""

    async def fail(*args: Any) -> set[int]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(supervisor, "FLUSH_S", 0.1)
    async with make_worker(nothing).start() as worker:
        with monkeypatch.context() as patch:
            patch.setattr(completer.store, "complete", fail)
            added = await client.add_job(nothing)
            await seen.wait_for(SettleFailed)
            await worker.stop()
    rows = f"select count(*) from {schema}._workers"
    left = (await db.fetchval(rows), (await client.get_job(added.id)).state)
    await db.execute(f"update {schema}._workers set last_seen = last_seen - interval '1 hour'")
    await make_worker(nothing).run_once()

    assert (1, JobState.ACTIVE) == left
    assert [(added.id,)] == [event.job_ids for event in seen.of(SettlementsAbandoned)]
    assert 2 == len(seen.of(WorkerStopped))


async def test_an_idle_worker_gives_its_connection_for_settling_back(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections are what PostgreSQL is short of: a fleet of idle workers should not hold the fourth."""
    monkeypatch.setattr(completer, "IDLE_S", 0.05)
    names = "select count(*) from pg_stat_activity where application_name = $1"

    async def is_closed() -> bool:
        return not await db.fetchval(names, f"{schema} settle")

    async with make_worker(nothing).start():
        for count in (1, 2):
            await client.add_job(nothing)
            await seen.wait_for(JobCompleted, count)
            await wait_until(is_closed, description="the idle connection to be closed")

    assert 2 == len(seen.of(JobCompleted))

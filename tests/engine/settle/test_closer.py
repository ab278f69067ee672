"""The closer: a worker releases jobs that wait for others, whatever ends these."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from asyncq import Client, Collect, InvalidJob, JobContext, StoreUnavailable, SyncClient, Task, task
from asyncq.domain.events import JobBlocked, JobCompleted, JobsReleased, JobStarted, MaintenanceFailed
from asyncq.domain.job import Claim
from asyncq.engine.settle import closer, completer
from asyncq.store.looks import Look
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S

LISTEN = pytest.mark.parametrize("listen", [True, False])
LOCK = "select from {0}._jobs where id = $1 for update"
LEFT = "select (select count(*) from {0}._waits) + (select count(*) from {0}._closings)"


@task
async def step(number: int) -> None:
    """One of several."""


@task
async def report() -> None:
    """The job that waits."""


@task
async def broken() -> None:
    """It always fails."""
    raise ValueError("no")


@task(transactional=True)
async def booked(ctx: JobContext) -> None:
    """It ends in its own transaction."""


@task(completes=True)
async def completing(ctx: JobContext) -> None:
    """It ends in a transaction that it began."""
    async with ctx.connection() as connection, connection.transaction():
        await ctx.complete(connection=connection)


@task(items=True)
async def many(items: list[int]) -> None:
    """All items are done."""


@task(collect=Collect(max=10, within="10 ms"))
async def collected(numbers: list[int]) -> None:
    """All jobs are done."""


@task(keep="1 h")
async def kept() -> int:
    """Its result is kept."""
    return 7


ENDING: dict[str, tuple[Task[...], Any]] = {
    "a plain job": (step, 1),
    "a transactional one": (booked, None),
    "one that completes itself": (completing, None),
    "one with items": (many, [1, 2]),
    "a collected one": (collected, 1),
    "a kept one": (kept, None),
}


async def add(client: Client, what: Task[...], payload: Any, **options: Any) -> int:
    """Add a job of a task with a payload, or without one. Returns its id."""
    given = () if payload is None else (payload,)
    return (await client.add_job(what.job(*given), **options)).id


@LISTEN
@pytest.mark.parametrize("ending", ENDING)
async def test_a_job_starts_after_the_one_that_it_waits_for(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, listen: bool, ending: str
) -> None:
    """However that one ends well. A worker without LISTEN finds the ends of its handlers' transactions by its poll."""
    what, payload = ENDING[ending]
    poll = {} if listen else {"poll": 0.05}
    async with db.transaction():
        first = await add(client, what, payload, connection=db)
        last = await client.add_job(report, after=[first], connection=db)
    async with make_worker(what, report, listen=listen, **poll).start():
        await seen.wait_for(JobCompleted, 2)

    assert [first, last.id] == seen.ids(JobStarted)
    assert 0 == await db.fetchval(LEFT.format(schema))


@LISTEN
async def test_a_chain_runs_to_its_end(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, listen: bool
) -> None:
    """Each settlement is followed by a look of its worker, which needs no notification and no poll."""
    async with db.transaction():
        ids = [(await client.add_job(step, 0, connection=db)).id]
        for number in range(1, 10):
            ids.append((await client.add_job(step, number, after=[ids[-1]], connection=db)).id)
    async with make_worker(step, listen=listen).start():
        await seen.wait_for(JobCompleted, 10)

    assert ids == seen.ids(JobCompleted)


async def test_a_job_that_was_awaited_when_it_was_claimed_is_settled_by_one_statement(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement of plain jobs would leave it."""
    settled: list[int] = []
    complete = completer.store.complete

    async def watched(line: Any, worker_id: int, ended: list[Claim], kept: Any) -> set[int]:
        settled.extend(claim.id for claim in ended)
        return await complete(line, worker_id, ended, kept)

    monkeypatch.setattr(completer.store, "complete", watched)
    async with db.transaction():
        first = await client.add_job(step, 1, connection=db)
        last = await client.add_job(report, after=[first], connection=db)
    await make_worker(step, report).run_once()

    assert ([last.id], [first.id, last.id]) == (settled, seen.ids(JobCompleted))


@pytest.mark.parametrize("ending", ENDING)
async def test_a_worker_that_runs_once_runs_all_that_its_jobs_release(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, ending: str
) -> None:
    """Nothing is left that could run."""
    what, payload = ENDING[ending]
    async with db.transaction():
        first = await add(client, what, payload, connection=db)
        middle = await client.add_job(report, after=[first], connection=db)
        last = await client.add_job(report, after=[middle], connection=db)
    await make_worker(what, report).run_once()

    assert [first, middle.id, last.id] == seen.ids(JobCompleted)


async def test_a_handler_adds_a_job_that_waits_for_its_own(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """It starts when the handler's job has ended, also in the transaction of that job."""

    @task
    async def plain(ctx: JobContext) -> None:
        await ctx.add_job(report, after=[ctx.job.id])
        assert not seen.ids(JobCompleted)

    @task(transactional=True)
    async def inside(ctx: JobContext) -> None:
        await ctx.add_job(report, after=[ctx.job.id])

    async with make_worker(plain, inside, report).start():
        for what in (plain, inside):
            await client.add_job(what)
            await seen.wait_for(JobCompleted, 2)
            assert [what.name, "report"] == [event.task for event in seen.of(JobCompleted)]
            seen.events.clear()


@pytest.mark.parametrize("act", ["cancel_jobs", "complete_jobs"])
async def test_workers_hear_of_ends_that_are_not_theirs(
    client: Client, make_worker: MakeWorker, seen: Seen, act: str
) -> None:
    """A caller ends the job, and never looks."""
    from_now: Callable[..., Awaitable[object]] = getattr(client.admin, act)
    first = await client.add_job("unknown")
    waiter = await client.add_job(report, after=[first])
    async with make_worker(report).start():
        seen.events.clear()
        await from_now([first.id])
        event = await seen.wait_for(JobsReleased)

    assert ((waiter.id,) if act == "complete_jobs" else (), (waiter.id,) if act == "cancel_jobs" else ()) == (
        event.released,
        event.cancelled,
    )


async def test_a_worker_finds_at_its_start_what_another_one_has_left(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """That one died between the end and its look."""
    first = await client.add_job("unknown")
    waiter = await client.add_job(report, after=[first])
    await client.admin.complete_jobs([first.id])
    async with make_worker(report).start():
        await seen.wait_for(JobCompleted)

    assert [waiter.id] == seen.ids(JobCompleted)


async def test_a_failure_for_good_is_told_and_its_retry_goes_on(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The default is to wait: a mended job finishes what waits for it."""
    failing = await client.add_job(broken, max_attempts=1)
    waiter = await client.add_job(report, after=[failing])
    async with make_worker(broken, report).start():
        event = await seen.wait_for(JobBlocked)
        blocked = await client.admin.explain(waiter.id)
        await client.admin.complete_jobs([failing.id])
        await seen.wait_for(JobCompleted)

    assert (waiter.id, failing.id) == (event.waiter, event.failed)
    assert ["pending", "blocked"] == [reason.reason for reason in blocked.reasons]
    assert [waiter.id] == seen.ids(JobCompleted)


async def test_a_waiter_that_a_transaction_holds_is_looked_at_again(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look waits for nobody. It is repeated soon, without a notification."""
    looks: list[list[Look]] = []
    twice = asyncio.Event()
    look = closer.look

    async def watched(*args: Any) -> tuple[list[Look], int | None]:
        found, after_id = await look(*args)
        looks.append(found)
        if len([one for one in looks if [row.outcome for row in one] == ["held"]]) == 2:
            twice.set()
        return found, after_id

    monkeypatch.setattr(closer, "look", watched)
    first = await client.add_job(step, 1, keep="1 h")
    waiter = await client.add_job(report, after=[first])
    holding = db.transaction()
    await holding.start()
    await db.execute(LOCK.format(schema).replace("$1", str(waiter.id)))
    async with make_worker(step, report, listen=False).start():
        await asyncio.wait_for(twice.wait(), LIMIT_S)
        await holding.rollback()
        await seen.wait_for(JobCompleted, 2)

    assert [first.id, waiter.id] == seen.ids(JobCompleted)


async def test_a_worker_that_runs_once_runs_what_was_released_beside_a_held_waiter(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The held one is left to the next worker."""
    first = await client.add_job("unknown")
    held, free = [await client.add_job(report, after=[first]) for _ in range(2)]
    last = await client.add_job(report, after=[free])
    await client.admin.complete_jobs([first.id])
    async with db.transaction():
        await db.execute(LOCK.format(schema).replace("$1", str(held.id)))
        await make_worker(report).run_once()
    completed = seen.ids(JobCompleted)
    await make_worker(report).run_once()

    assert ([free.id, last.id], [free.id, last.id, held.id]) == (completed, seen.ids(JobCompleted))


async def test_a_look_that_fails_is_repeated(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage delays it, and is reported."""
    look, failures = closer.look, [StoreUnavailable("gone")] * 2

    async def fail(*args: Any) -> tuple[list[Look], int | None]:
        if failures:
            raise failures.pop()
        return await look(*args)

    first = await client.add_job(step, 1, keep="1 h")
    await client.add_job(report, after=[first])
    monkeypatch.setattr(closer, "look", fail)
    async with make_worker(step, report, listen=False).start():
        await seen.wait_for(JobCompleted, 2)

    assert [1, 2] == [event.failures for event in seen.of(MaintenanceFailed)]


async def test_a_look_at_many_jobs_leaves_its_connection_free_between_a_few(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each few are a transaction of their own, and reported. One that fails is repeated."""
    monkeypatch.setattr(closer, "BATCH", 2)
    look, calls = closer.look, []

    async def fail_at_the_third(*args: Any) -> tuple[list[Look], int | None]:
        calls.append(args)
        if len(calls) == 3:
            raise StoreUnavailable("gone")
        return await look(*args)

    monkeypatch.setattr(closer, "look", fail_at_the_third)
    first = await client.add_job("unknown")
    waiters = [await client.add_job(report, after=[first]) for _ in range(7)]
    await client.admin.complete_jobs([first.id])
    async with make_worker(report, listen=False).start():
        await seen.wait_for(JobCompleted, 7)

    assert [2, 2, 2, 1] == [len(event.released) for event in seen.of(JobsReleased)]
    assert {waiter.id for waiter in waiters} == {*seen.ids(JobCompleted)}


async def test_a_client_without_a_loop_adds_jobs_that_wait(
    dsn: str, schema: str, make_worker: MakeWorker, seen: Seen
) -> None:
    """By the same functions."""

    def add_both() -> list[int]:
        sync = SyncClient(dsn, schema=schema)
        first = sync.add_job(step, 1, keep="1 h")
        return [first.id, sync.add_job(report, after=[first], if_failed="cancel").id]

    ids = await asyncio.to_thread(add_both)
    await make_worker(step, report).run_once()

    assert ids == seen.ids(JobCompleted)


async def test_a_job_of_which_nothing_is_known_is_refused(client: Client) -> None:
    """By the store, with the code and the field."""
    with pytest.raises(InvalidJob, match="of which nothing is known") as caught:
        await client.add_job(report, after=[17])

    assert ("GWBAF", "after") == (caught.value.code, caught.value.field)

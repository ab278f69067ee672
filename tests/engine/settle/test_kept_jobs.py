"""Jobs that are kept once they have ended: their history, and their results."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncq import Client, ConfigurationError, JobContext, TaskError, UniquePolicy, Worker, task
from asyncq.domain.events import JobCancelled, JobCompleted, JobsFetched, JobStarted, ResultIgnored, SettleFailed
from asyncq.engine.fetch import cursor
from asyncq.engine.settle import completer
from asyncq.store import sizes
from tests.engine.conftest import MakeWorker
from tests.engine.settle.test_marked_jobs import ask_again
from tests.engine.test_canceller import cancel
from tests.support.faults import link_to
from tests.support.handoffs import OPEN_SLOTS
from tests.support.seen import Seen
from tests.support.waiting import wait_until
from tests.support.write_gate import Gate

HOUR = timedelta(hours=1)
PAST = """
select id, state, keep_until - ended_at as kept, result::text, payload::text, attempts, worker_id is not null as ran,
  started_at between created_at and ended_at as is_in_order
from {}._ended_jobs order by id
"""


@task(keep="1 hour")
async def double(number: int = 1) -> dict[str, int]:
    """A job with a result."""
    return {"doubled": 2 * number}


@task
async def plain(number: int = 1) -> int:
    """Not kept by itself."""
    return number


async def past(db: asyncpg.Connection, schema: str) -> list[dict[str, Any]]:
    """The ended jobs."""
    return [dict(row) for row in await db.fetch(PAST.format(schema))]


def kept(job_id: int, result: object, *, number: int = 1, attempts: int = 1) -> dict[str, Any]:
    """A job that completed."""
    return {
        "id": job_id,
        "state": "completed",
        "kept": HOUR,
        "result": None if result is None else json.dumps(result, separators=(",", ":")),
        "payload": json.dumps({"number": number}, separators=(",", ":")),
        "attempts": attempts,
        "ran": True,
        "is_in_order": True,
    }


@pytest.mark.parametrize("count", [1, 250])
@pytest.mark.parametrize("queue", [None, "q"])
async def test_a_completed_job_of_a_kept_task_is_kept_with_its_result(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, count: int, queue: str | None
) -> None:
    """Alone, in a batch, in a queue: each one once, beside jobs that are not kept."""
    if queue is not None:
        count = min(count, 20)
    specs = [double.job(number).with_options(queue=queue) for number in range(count)]
    added = await client.add_jobs([*specs, *[plain.job(number) for number in range(count)]])
    await make_worker(double, plain).run_once()

    expected = [kept(job.id, {"doubled": 2 * n}, number=n) for n, job in enumerate(added[:count])]
    assert expected == await past(db, schema)


@pytest.mark.parametrize("of_job", [None, "1 hour"])
async def test_large_results_are_written_in_several_statements(
    client: Client,
    make_worker: MakeWorker,
    db: asyncpg.Connection,
    schema: str,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    of_job: Any,
) -> None:
    """A statement has a limit of its size, and hundreds of jobs may end at once."""
    monkeypatch.setattr(sizes, "PIECE", 40)
    await client.add_jobs([double.job(number).with_options(keep=of_job) for number in range(20)])
    async with make_worker(double, concurrency=20).start() as worker:
        await wait_until(lambda: bool(gate.batches), description="the first write")
        gate.opened.set()
        await worker.stop()
    rows = await past(db, schema)

    assert [f'{{"doubled":{2 * number}}}' for number in range(20)] == [row["result"] for row in rows]
    assert max(gate.batches) <= 3
    assert len(gate.batches) >= 7


@pytest.mark.parametrize("of_worker", [None, "1 min"])
async def test_the_job_says_how_long_it_is_kept_or_its_task_or_the_worker(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, of_worker: Any
) -> None:
    """The nearest one decides, in this order."""
    seconds = {None: None, "1 min": 60, "1 hour": 3600, "2 h": 7200, False: 0}
    tasks = {keep: task(name=f"t {keep}", keep=keep)(plain.handler) for keep in (None, "1 hour", False)}
    expected: list[timedelta] = []
    for of_task, made in tasks.items():
        for of_job in (None, "2 h", False):
            await client.add_job(made, keep=of_job)
            decides = [seconds[each] for each in (of_job, of_task, of_worker) if each is not None]
            expected += [timedelta(seconds=decides[0])] if decides and decides[0] else []
    await make_worker(*tasks.values(), keep=of_worker).run_once()

    assert [(kept, "1") for kept in expected] == [(row["kept"], row["result"]) for row in await past(db, schema)]


async def test_a_worker_without_keep_keeps_nothing_and_says_that_the_result_is_ignored(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """A task that is no longer kept is not kept by functions of SQL either."""
    await make_worker(plain, keep=60).run_once()
    await client.add_job(plain)
    await make_worker(plain).run_once()
    waiting = await client.add_job(plain)
    await client.admin.cancel_jobs([waiting.id])

    assert [] == await past(db, schema)
    assert 1 == len(seen.of(ResultIgnored))


async def test_a_job_that_was_handed_over_is_kept(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is a batch of one, which no fetch claimed: none is due, however slow the last one was."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)
    async with make_worker(double).start():
        await wait_until(lambda: db.fetchval(OPEN_SLOTS.replace("asyncq.", f"{schema}.")), description="an open slot")
        fetches = len(seen.of(JobsFetched))
        added = await client.add_job(double, 1)
        await seen.wait_for(JobCompleted)

    assert fetches == len(seen.of(JobsFetched))
    assert [kept(added.id, {"doubled": 2})] == await past(db, schema)


@pytest.mark.parametrize("transactional", [True, False])
async def test_the_end_in_a_transaction_of_the_handler_is_kept(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str, transactional: bool
) -> None:
    """The return value of a transactional task is written by its transaction; ctx.complete comes before the return."""

    async def work(ctx: JobContext, number: int = 1) -> int:
        if not transactional:
            async with ctx.connection() as connection, connection.transaction():
                await ctx.complete(connection=connection)
        return number

    made = task(name="work", transactional=transactional, keep="1 hour")(work)
    added = await client.add_job(made, 1)
    await make_worker(made).run_once()

    assert [kept(added.id, 1 if transactional else None)] == await past(db, schema)


async def test_a_lost_answer_keeps_one_row(
    dsn: str, schema: str, client: Client, seen: Seen, db: asyncpg.Connection
) -> None:
    """The settlement is sent again, and finds it done."""
    async with link_to(dsn) as link, Worker(link.dsn, [double], schema=schema, observers=[seen], poll=60).start():
        link.cut_at_statement("settle", "after", "settle_completed(")
        added = await client.add_job(double, 1)
        await seen.wait_for(JobCompleted)

    assert [kept(added.id, {"doubled": 2})] == await past(db, schema)
    assert seen.of(SettleFailed)


async def test_a_job_that_a_unique_policy_needs_too_keeps_its_result(
    client: Client, make_worker: MakeWorker, db: asyncpg.Connection, schema: str
) -> None:
    """The first statement leaves its row to another one."""
    policy = UniquePolicy(states=["available", "active", "scheduled", "retryable", "completed"], period="P1D")
    added = await client.add_job(double, 1, unique=policy)
    await make_worker(double).run_once()
    (row,) = await past(db, schema)

    assert (added.id, '{"doubled":2}', True) == (row["id"], row["result"], row["is_in_order"])
    assert timedelta(hours=23) < row["kept"] <= timedelta(days=1)


@pytest.mark.parametrize("mark", [cancel, ask_again])
async def test_a_mark_of_a_running_job_decides_what_is_kept(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str, mark: Any
) -> None:
    """A cancelled one has no result; one that runs again is kept after its last run."""
    entered, go = asyncio.Event(), asyncio.Event()

    @task(keep="1 hour")
    async def wait(number: int = 1) -> int:
        entered.set()
        await go.wait()
        return number

    async with make_worker(wait).start():
        added = await client.add_job(wait, 1)
        await entered.wait()
        await mark(db, schema, added.id)
        go.set()
        await seen.wait_for(JobCancelled if mark is cancel else JobCompleted, 1 if mark is cancel else 2)
    rows = await past(db, schema)

    expected = {"state": "cancelled", "result": None} if mark is cancel else {"state": "completed", "result": "2"}
    assert [expected] == [{name: row[name] for name in expected} for row in rows]


async def test_a_rescue_beats_the_settlement_and_the_job_is_kept_once(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim decides: only the worker that has it writes an end."""
    real, taken = completer.store.complete, []

    async def complete_late(*args: Any) -> set[int]:
        if not taken:
            taken.append(
                await db.fetch(f"update {schema}._batches set lock_token = -1 returning lock_token")
                or await db.fetch(f"update {schema}._jobs set lock_token = -1 returning lock_token")
            )
        return await real(*args)

    monkeypatch.setattr(completer.store, "complete", complete_late)
    added = await client.add_job(double, 1)
    async with make_worker(double).start():
        await seen.wait_for(JobStarted)
        while not taken:
            await asyncio.sleep(0.01)
    before = await past(db, schema)
    await db.execute(f"update {schema}._jobs set locked_by = null, locked_at = null, lock_token = null")
    await make_worker(double).run_once()

    assert ([], [kept(added.id, {"doubled": 2})]) == (before, await past(db, schema))


@pytest.mark.parametrize("keep", [0, -1, True, "x", "367 days", float("nan")])
def test_a_time_that_is_none_is_refused_where_it_is_given(keep: Any) -> None:
    """The message has the value and the range, or a form."""
    with pytest.raises(TaskError, match=r"task 'plain': keep (is|must be)"):
        task(keep=keep)(plain.handler)
    with pytest.raises(ConfigurationError, match=r"keep (is|must be)"):
        Worker("postgresql://", [plain], keep=keep)
    with pytest.raises(Exception, match=r"keep (is|must be)"):
        plain.job().with_options(keep=keep)


def test_whether_a_payload_is_kept_is_yes_or_no() -> None:
    """A text is true."""
    with pytest.raises(TaskError, match="task 'plain': keep_payload must be True or False, got 'no'"):
        task(keep_payload="no")(plain.handler)  # type: ignore[call-overload]

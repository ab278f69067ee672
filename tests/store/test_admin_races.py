"""An administrator's call arrives during another change of its job, and applies to the later state.

The change holds the row until it commits or rolls back. At READ COMMITTED the result is that of one after the other. At
the other levels the loser gets 40001 and has changed nothing. A running job is never touched.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import asyncpg
import pytest

from tests.store.test_isolation import waits
from tests.support.gate import Gate
from tests.support.jobs import NO_PARTITIONS, add, change, complete, fetch, locked_queues, stray_queues
from tests.support.session import Session
from tests.support.waiting import wait_until

LEVELS = ("read_committed", "repeatable_read", "serializable")
CALLS = {
    "complete": "select id from asyncq.complete_jobs($1)",
    "fail": "select id from asyncq.permanently_fail_jobs($1)",
    "reschedule": "select id from asyncq.reschedule_jobs($1, now(), 1, 0, 9)",
    "retry": "select id from asyncq.retry_jobs($1)",
}
EMPTY = f"delete from asyncq._jobs; {NO_PARTITIONS}"
ROW = "select job::text from asyncq._jobs as job"

Act = Callable[[Session, list[asyncpg.Record]], Awaitable[Any]]


async def _fetch(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await fetch(sql, token=2))


async def _complete(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await complete(sql, claims))


async def _fail(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims, attempts=1, delay_s=3600.0, error="e"))


async def _return(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims))


async def _rescue(sql: Session, _claims: list[asyncpg.Record]) -> None:
    rows = await sql.rows("select * from asyncq._rescue_jobs($1)", True)  # noqa: FBT003
    assert 1 == len(rows)


# The act; whether the job runs before it, and after it: None when it is gone.
ACTS: dict[str, tuple[Act, bool, bool | None]] = {
    "a fetch": (_fetch, False, True),
    "a completion": (_complete, True, None),
    "a failure": (_fail, True, False),
    "a return": (_return, True, False),
    "a rescue": (_rescue, True, False),
}


async def prepare(sql: Session, *, runs: bool) -> tuple[int, list[asyncpg.Record]]:
    """Store a job that has failed once, and let it run. Returns its id and its claim."""
    await sql.execute(EMPTY)
    job = await add(sql, queue="q")
    await sql.rows("update asyncq._jobs set attempts = 1, last_error = 'e'")
    return job, await fetch(sql) if runs else []


class Caller:
    """Makes a call in a transaction of its own; waits if it has to."""

    def __init__(self, sql: Session, level: str) -> None:
        self._sql = sql
        self._level = level
        self.touched: list[int] = []
        self.refusals: list[str] = []

    async def call(self, statement: str, argument: Any) -> None:
        """Call, and record the result."""
        try:
            async with self._sql.connection.transaction(isolation=self._level):
                self.touched = await self._sql.values(statement, argument)
        except asyncpg.PostgresError as error:
            self.refusals.append(error.sqlstate)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_waits_for_the_change_of_its_job(
    sql: Session, other: Session, call: str, act: str, level: str
) -> None:
    """If the change commits or rolls back, a waiting job is changed then, and a running one left alone."""
    do, before, after = ACTS[act]
    for ends in ("commit", "rollback"):
        job, claims = await prepare(sql, runs=before)
        caller = Caller(other, level)
        transaction = sql.connection.transaction()
        await transaction.start()
        await do(sql, claims)
        async with anyio.create_task_group() as group:
            group.start_soon(caller.call, CALLS[call], [job])
            await wait_until(lambda: waits(sql, other.connection.get_server_pid()), description="the call to wait")
            await getattr(transaction, ends)()
        is_refused = level != "read_committed" and ends == "commit"
        runs = after if ends == "commit" else before

        assert (["40001"] if is_refused else [], ends) == (caller.refusals, ends)
        assert ([job] if runs is False and not is_refused else [], ends) == (caller.touched, ends)


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("act", ACTS)
async def test_an_old_snapshot_decides_nothing(sql: Session, other: Session, act: str, level: str) -> None:
    """It shows a job that waits where one runs, or one that runs where one waits: 40001, and nothing is changed."""
    do, before, _ = ACTS[act]
    for call in CALLS.values():
        job, claims = await prepare(sql, runs=before)
        async with other.connection.transaction(isolation=level):
            await other.rows("select from asyncq._jobs")
            await do(sql, claims)
            done = await sql.values(ROW)
            refusal = await other.refusal(call, [job])

        assert ("40001", call) == (refusal.sqlstate, call)
        assert done == await sql.values(ROW)


@pytest.mark.parametrize("call", CALLS)
async def test_a_job_that_was_taken_after_the_snapshot_is_left_alone(
    gate: Gate, guarded: Session, other: Session, call: str
) -> None:
    """Even at READ COMMITTED a statement has a snapshot; the lock shows the current row."""
    job = await add(other)
    await other.rows("update asyncq._jobs set attempts = 1")
    await guarded.rows(CALLS[call], [0])
    touched = await gate.during(guarded.rows(CALLS[call], [job]), fetch(other))

    assert ([], [1]) == (touched, await other.values("select locked_by from asyncq._jobs"))


UNLOCK = "select id from asyncq.force_unlock_workers($1)"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("act", ["a completion", "a failure", "a return", "a rescue"])
async def test_a_forced_unlock_waits_for_a_settlement(sql: Session, other: Session, act: str, level: str) -> None:
    """A claim that is being settled is gone then. If the settlement rolls back, the claim is dropped."""
    do, _, _ = ACTS[act]
    for ends in ("commit", "rollback"):
        job, claims = await prepare(sql, runs=True)
        caller = Caller(other, level)
        transaction = sql.connection.transaction()
        await transaction.start()
        await do(sql, claims)
        async with anyio.create_task_group() as group:
            group.start_soon(caller.call, UNLOCK, ["1"])
            await wait_until(lambda: waits(sql, other.connection.get_server_pid()), description="the call to wait")
            await getattr(transaction, ends)()
        is_refused = level != "read_committed" and ends == "commit"

        assert (["40001"] if is_refused else [], ends) == (caller.refusals, ends)
        assert ([job] if ends == "rollback" else [], ends) == (caller.touched, ends)
        assert [] == await sql.values("select id from asyncq._jobs where locked_by is not null")


async def test_a_claim_after_a_forced_unlock_holds(sql: Session, other: Session) -> None:
    """A live worker whose claims were dropped may claim the job again."""
    job, _ = await prepare(sql, runs=True)
    async with other.connection.transaction():
        await other.rows(UNLOCK, ["1"])
        during = await fetch(sql, token=2)
    (claim,) = await fetch(sql, token=3)

    assert ([], job) == (during, claim["id"])
    assert [job] == await complete(sql, [claim])


async def test_a_queue_that_is_taken_during_a_forced_unlock_stays_locked(
    gate: Gate, guarded: Session, other: Session
) -> None:
    """Its claim is newer than those that are dropped, though it belongs to the same worker."""
    await add(other, queue="q")
    await fetch(other)
    await guarded.rows(UNLOCK, ["70"])
    job = await add(other, queue="r")
    await gate.during(guarded.rows(UNLOCK, ["1"]), fetch(other, token=2))

    assert (["r"], []) == (await locked_queues(other), await stray_queues(other))
    assert [job] == await other.values("select id from asyncq._jobs where locked_by is not null")


async def test_calls_with_the_same_ids_in_other_orders_do_not_deadlock(sql: Session, other: Session) -> None:
    """Rows are locked in the order of their ids, not of the arguments."""
    ids = [await add(sql) for _ in range(50)]
    touched: list[int] = []

    async def call(session: Session, given: list[int]) -> None:
        for priority in range(10):
            rows = await session.rows("select id from asyncq.reschedule_jobs($1, priority := $2)", given, priority)
            touched.append(len(rows))

    async with anyio.create_task_group() as group:
        group.start_soon(call, sql, ids)
        group.start_soon(call, other, ids[::-1])

    assert [50] * 20 == touched


@pytest.mark.parametrize("level", LEVELS)
async def test_a_cleanup_leaves_a_job_alone_that_is_being_retried(sql: Session, other: Session, level: str) -> None:
    """The cleanup does not wait for it, either."""
    job, _ = await prepare(sql, runs=False)
    await sql.rows("update asyncq._jobs set attempts = 25")
    caller = Caller(other, level)
    statement = "select removed from asyncq.cleanup($1)"
    for ends in ("rollback", "commit"):
        transaction = sql.connection.transaction()
        await transaction.start()
        await sql.rows(CALLS["retry"], [job])
        await caller.call(statement, ["DELETE_PERMAFAILED_JOBS"])
        await getattr(transaction, ends)()

        assert ([0], []) == (caller.touched, caller.refusals)
    await caller.call(statement, ["DELETE_PERMAFAILED_JOBS"])

    assert ([0], [job]) == (caller.touched, await sql.values("select id from asyncq._jobs"))


async def test_settlements_and_fetches_do_not_wait_for_a_call(sql: Session, other: Session) -> None:
    """A caller's open transaction must not stop the workers."""
    _, claims = await prepare(sql, runs=True)
    waiting, free = await add(sql), await add(sql)
    await sql.execute("set lock_timeout = '100ms'")
    for call in CALLS.values():
        transaction = other.connection.transaction()
        await transaction.start()
        await other.rows(call, [claims[0]["id"], waiting])
        taken = await fetch(sql, token=2)
        settled = await complete(sql, claims)
        await transaction.rollback()
        await change(sql, taken)

        assert ([free], []) == ([claim["id"] for claim in taken], settled)

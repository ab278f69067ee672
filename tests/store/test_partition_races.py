"""Partitions change between the snapshot of a statement and its locks, or its commit: each case is forced.

Two promises are attacked: no more jobs of a partition run than its limit allows, and no job of it is forgotten. After
each test the laws hold, and each job that is left can be fetched.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest

from tests.support.jobs import BATCH_FROM, add, change, claim_next, complete, fetch, fetched
from tests.support.session import Session

OTHER = 2
THOROUGH = True
DUE = "asyncq.now() - interval '1 min'"
LAWS = "select law, said from asyncq.violations() where law in ('wrong_count', 'over_limit', 'stranded_partition')"
LEVELS = ("read_committed", "repeatable_read", "serializable")

Claims = list[dict[str, Any]]
End = Callable[[Session, Claims], Awaitable[object]]


async def _complete(sql: Session, claims: Claims) -> None:
    assert len(claims) == len(await complete(sql, claims, worker=OTHER))


async def _claim_next(sql: Session, claims: Claims) -> None:
    for claim in claims:  # it is for claims in rows
        await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
    settled, taken = await claim_next(sql, claims, worker=OTHER)
    assert (len(claims), []) == (len(settled), taken)


async def _settle_rest(sql: Session, claims: Claims) -> None:
    assert len(claims) == len(await change(sql, claims, worker=OTHER, attempts=1, delay_s=3600.0, error="e"))


async def _complete_in_transaction(sql: Session, claims: Claims) -> None:
    """As the transaction of a handler ends, one job at a time."""
    for claim in claims:
        await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
        (held,) = await sql.run("lock_claim", OTHER, claim["id"], claim["lock_token"])
        arguments = (OTHER, claim["id"], claim["lock_token"], held["xid"], None, None, None, None)
        (row,) = await sql.run("complete_claim", *arguments)
        assert "completed" == row[0]


async def _rescue(sql: Session, claims: Claims) -> None:
    await sql.run("rescue_jobs", THOROUGH, None)
    await _put_off(sql)


async def _return_lost(sql: Session, claims: Claims) -> None:
    await sql.run("return_lost", OTHER, [claim["lock_token"] for claim in claims])
    await _put_off(sql)


async def _force_unlock(sql: Session, claims: Claims) -> None:
    await sql.rows("select from asyncq.force_unlock_workers($1)", [str(OTHER)])
    await _put_off(sql)


async def _put_off(sql: Session) -> None:
    """Jobs whose claims were taken back are ready at once. Let them be due later, so that only their slots matter."""
    ids = await sql.values("select id from asyncq._jobs where locked_by is null")
    await sql.rows("select from asyncq.reschedule_jobs($1, now() + interval '1 h')", ids)


ENDS: dict[str, End] = {
    "completed": _complete,
    "claim_next": _claim_next,
    "settled": _settle_rest,
    "in a transaction": _complete_in_transaction,
    "rescued": _rescue,
    "returned": _return_lost,
    "unlocked": _force_unlock,
}
BY_ANY_END = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
LIMITS = pytest.mark.parametrize("at_once", [1, 3])


@pytest.fixture(autouse=True, params=[1000, 1], ids=["row by row", "batched"])
def claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch claims in rows, or in batches."""
    monkeypatch.setitem(BATCH_FROM, "rows", request.param)


@pytest.fixture(autouse=True)
async def laws(sql: Session) -> AsyncIterator[None]:
    """The laws hold after the test. Then the jobs that are left run one after the other, each by its own service."""
    yield
    assert [] == [tuple(row) for row in await sql.rows(LAWS)]
    assert [] == await left_after_all_have_run(sql)


async def left_after_all_have_run(sql: Session) -> list[int]:
    """Run all jobs, by services that know one task each. Returns the ids of those that nobody got."""
    await sql.execute("select from asyncq._rescue_jobs(true)")
    await sql.execute("""
        select from asyncq.reschedule_jobs((select array_agg(id) from asyncq._jobs where run_at > now()), now())""")
    idle = 0
    while idle < 3:
        ran = 0
        for task in await sql.values("select identifier from asyncq._tasks order by identifier"):
            taken = await fetch(sql, 10, worker=OTHER, tasks=[task])
            await complete(sql, taken, worker=OTHER)
            ran += len(taken)
        idle = 0 if ran else idle + 1
        if not ran:
            await anyio.sleep(0.025)  # a wakeup may be 20 ms ahead
    return await sql.values(
        "select id from asyncq._jobs where locked_by is not null or attempts < max_attempts order by id"
    )


async def allow(sql: Session, at_once: int | None) -> None:
    """Set the limit of all queues."""
    await sql.rows("update asyncq._limits set at_once = $1 where id = 1", at_once)


async def add_to(sql: Session, task: str = "t", queue: str = "q", **options: Any) -> int:
    """Add a job of the queue that has been due for a while, so that the laws look at it."""
    return await add(sql, task, **{"queue": queue, "run_at": DUE} | options)


async def known(sql: Session, queue: str = "q") -> None:
    """Let the partition of a queue have a row."""
    await add_to(sql, queue=queue)
    await complete(sql, await fetch(sql))


async def fetched_soon(sql: Session, **options: Any) -> list[int]:
    """Fetch twice: the first fetch may only find out which tasks have jobs."""
    return await fetched(sql, **options) or await fetched(sql, **options)


async def running(sql: Session) -> Mapping[str, int]:
    """How many jobs of each queue run, by their claims."""
    return dict(
        await sql.rows("select queue, count(*)::int from asyncq._all_jobs() where locked_by is not null group by 1")
    )


KINDS = {"of the same kind": {}, "of another priority": {"priority": 5}, "of another task": {"task": "late"}}


@BY_ANY_END
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@LIMITS
async def test_a_job_that_is_added_while_an_end_is_open_is_not_forgotten(
    sql: Session, other: Session, end: End, kind: dict[str, Any], at_once: int
) -> None:
    """The end has not seen the job. The fetch that sees the job finds the partition full, and drops its wakeup."""
    await allow(sql, at_once)
    await add(sql, "late")
    for _ in range(at_once):
        await add_to(sql)
    claims = [claim for claim in await fetch(other, worker=OTHER) if claim["queue"]]
    async with other.connection.transaction():
        await end(other, claims[:1])
        late = await add_to(sql, **kind)
        during = await fetched(sql)

    assert ([], [late]) == (during, await fetched_soon(sql))


@LIMITS
async def test_a_slot_that_one_service_freed_is_seen_by_another_service(
    sql: Session, other: Session, at_once: int
) -> None:
    """The first job behind it is for a service that is gone. It is passed by."""
    await allow(sql, at_once)
    for _ in range(at_once):
        await add_to(sql, "theirs")
    claims = await fetch(other, worker=OTHER)
    await add_to(sql, "theirs")
    mine = await add_to(sql, "mine")
    before = await fetched(sql, tasks=["mine"])
    await complete(other, claims, worker=OTHER)

    assert ([], [mine]) == (before, await fetched(sql, tasks=["mine"]))


async def test_jobs_of_one_add_that_are_due_one_after_the_other_are_each_seen(sql: Session) -> None:
    """The wakeup of the first one is gone when the second one is due."""
    await sql.execute("""
        select asyncq.add_jobs(array_agg(
          ('t', null, 'q', now() + i * interval '10 s', null, null, 0, null, null, null)::asyncq.job_spec order by i))
        from generate_series(-1, 1) as i""")
    moment = await sql.value("select now()")
    taken = []
    for seconds in (0, 0, 0, 11):
        now = await sql.value("select $1::timestamptz + make_interval(secs => $2)", moment, float(seconds))
        claims = await fetch(sql, now=now)
        await complete(sql, claims)
        taken.append(len(claims))

    assert [1, 1, 0, 1] == taken


async def test_a_fetch_that_was_called_before_an_add_of_two_moments_leaves_a_wakeup(sql: Session) -> None:
    """Of two jobs of one add, the second one is due after the moment of the fetch, which sees both."""
    await allow(sql, 3)
    await sql.execute("""
        select asyncq.add_jobs(array_agg(
          ('t', null, 'q', now() - (i * interval '1 min'), null, null, 0, null, null, null)::asyncq.job_spec))
        from unnest(array[2, 5]) as i""")
    early = await fetched(sql, now=await sql.value("select now() - interval '3 min'"))

    assert (1, 1) == (len(early), len(await fetched(sql)))


async def test_an_open_fetch_that_found_a_partition_empty_does_not_stop_others(sql: Session, other: Session) -> None:
    """Its jobs were cancelled, and it had no row. A job that is added to it meanwhile is found afterwards."""
    ids = [await add_to(sql, queue=queue) for queue in "ab"]
    await sql.rows("select from asyncq.cancel_jobs($1)", ids)
    free = await add_to(sql, queue="free")
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        assert [free] == await fetched(other, worker=OTHER)
        late = [await add_to(sql), await add_to(sql, queue="a")]

        assert late[:1] == await fetched(sql)

    assert late[1:] == await fetched(sql)


async def test_a_locked_job_behind_a_forbidden_one_is_seen_when_it_is_free(sql: Session, other: Session) -> None:
    """The worker may not run the first job. An administrator holds the second one, and rolls back."""
    await known(sql)
    await add_to(sql, flags=["f"])
    second = await add_to(sql)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows("select from asyncq._jobs where id = $1 for update", second)
    during = await fetched(sql, forbidden=["f"])
    await transaction.rollback()
    await anyio.sleep(0.025)

    assert ([], [second]) == (during, await fetched(sql, forbidden=["f"]))

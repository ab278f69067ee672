"""A limit gets its total while statements run that do not know it: the gate counts each claim once all the same.

A statement reads the limits in its snapshot. So claims may be made, and may end, that nothing has said to the gate.
"""

from collections.abc import AsyncIterator

import pytest

from tests.store.test_partition_races import BY_ANY_END, LEVELS, OTHER, End, add_to
from tests.support.gate import Gate
from tests.support.jobs import BATCH_FROM, claim_next, claimed, complete, fetch, fetched
from tests.support.session import Session
from tests.support.waiting import wait_until

TOTAL = "select asyncq.set_limit('l', total => 1)"
NO_TOTAL = "select asyncq.set_limit('l', unlimited => '{total}')"
SETTLE = "select asyncq._settle_gates()"
GATE = "select recount_since is null, running from asyncq._partitions where id = asyncq._gate(7::smallint)"
WRONG = "select law, said from asyncq.violations() where law in ('wrong_count', 'over_limit')"
SAID = "select sum(freed) from asyncq._wakeups where partition = asyncq._gate(7::smallint)"


@pytest.fixture(autouse=True, params=[1000, 1], ids=["row by row", "batched"])
def claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch claims in rows, or in batches."""
    monkeypatch.setitem(BATCH_FROM, "rows", request.param)


@pytest.fixture
async def jobs(sql: Session) -> AsyncIterator[list[int]]:
    """Three jobs of the task `l`, in queues of their own. After the test the gate settles, and counts what runs.

    It settles once all transactions from before have ended: a vacuum of another table may be one.
    """
    await sql.execute("""
        select asyncq._store_tasks(array['l']);
        insert into asyncq._limits (id, name, declared) values (7, 'l', '{}');
        update asyncq._tasks set limit_id = 7 where identifier = 'l'""")
    yield [await add_to(sql, "l", queue) for queue in "abc"]
    await wait_until(lambda: is_settled(sql), description="the gate to settle")
    _, running = await sql.row(GATE)

    assert len(await claimed(sql)) == running - (await sql.value(SAID) or 0)
    assert [] == await sql.rows(WRONG)


async def is_settled(sql: Session) -> bool:
    """Whether the gate has settled, once it may."""
    await sql.execute(SETTLE)
    return (await sql.row(GATE))[0]


async def fetched_soon(sql: Session) -> list[int]:
    """Fetch until a job comes: wakeups of jobs that are put off use the room of a gate once."""
    for _ in range(5):
        if taken := await fetched(sql):
            return taken
    return []


async def test_claims_beside_a_change_that_is_not_committed_count(
    sql: Session, other: Session, jobs: list[int]
) -> None:
    """The change may stay open for long."""
    async with other.connection.transaction():
        await other.execute(TOTAL)
        during = await fetched(sql, 1)

    assert jobs[:1] == during
    assert [] == await fetched_soon(sql)


async def test_a_fetch_that_began_before_a_change_counts(
    gate: Gate, fetcher: Session, sql: Session, other: Session, jobs: list[int]
) -> None:
    """It claims its job after the commit of the change."""
    await gate.during(fetched(fetcher, 1), other.execute(TOTAL))

    assert [] == await fetched_soon(sql)
    assert jobs[:1] == await claimed(sql)


@BY_ANY_END
async def test_ends_beside_a_change_that_is_not_committed_free_the_total(
    sql: Session, other: Session, jobs: list[int], end: End
) -> None:
    """The transaction of the change sees the claims, but not their ends."""
    claims = await fetch(sql, 2, worker=OTHER)
    async with other.connection.transaction():
        await other.execute(TOTAL)
        await end(sql, claims)
    late = await add_to(sql, "l", "d")
    taken = await fetched_soon(sql)

    assert taken in ([jobs[2]], [late])
    assert [] == await fetched_soon(sql)


@pytest.mark.parametrize("level", LEVELS[1:])
async def test_an_end_with_a_snapshot_before_a_change_frees_the_total(
    sql: Session, other: Session, jobs: list[int], level: str
) -> None:
    """The transaction of the handler is older than the limit. Until it ends, the gate is not settled."""
    (claim,) = await fetch(sql, 1, worker=OTHER)
    await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
    async with other.connection.transaction(isolation=level):
        (held,) = await other.run("lock_claim", OTHER, claim["id"], claim["lock_token"])
        await sql.execute(TOTAL)
        during = await fetched_soon(sql)
        settled = [await sql.value(SETTLE), await sql.value(SETTLE), await sql.value(GATE)]
        arguments = (OTHER, claim["id"], claim["lock_token"], held["xid"], None, None, None, None)
        (row,) = await other.run("complete_claim", *arguments)
    (due,) = await sql.run("next_due", None, None, None, None, None, None, None)

    assert ("completed", [], [1, 0, False]) == (row[0], during, settled)
    assert due["delay_s"] is not None
    assert jobs[1:2] == await fetched_soon(sql)
    assert [] == await fetched_soon(sql)


async def test_claims_beside_a_new_limit_of_their_task_count(sql: Session, other: Session, jobs: list[int]) -> None:
    """Jobs that have a queue stay in its partition. The gate of the limit counts them too."""
    await sql.execute(TOTAL)
    await sql.execute("update asyncq._tasks set limit_id = null where identifier = 'l'")
    await sql.execute(SETTLE)
    await sql.execute(SETTLE)
    declared = '{"limits": [{"name": "l"}], "tasks": [{"identifier": "l", "limit": "l"}]}'
    async with other.connection.transaction():
        await other.run("declare_limits", declared, "worker 1")
        during = await fetched(sql, 1)

    assert jobs[:1] == during
    assert [] == await fetched_soon(sql)


async def test_a_total_that_is_set_again_counts_the_claims_that_were_made_without_it(
    sql: Session, jobs: list[int]
) -> None:
    """While there is no total, the gate counts nothing, and is not wrong."""
    await sql.execute(TOTAL)
    first = await fetched_soon(sql)
    await sql.execute(NO_TOTAL)
    second = await fetched(sql, 1)
    without = await sql.rows(WRONG)
    await sql.execute(SETTLE)
    await sql.execute(SETTLE)
    await sql.execute(TOTAL)

    assert (jobs[:1], jobs[1:2], []) == (first, second, without)
    assert [] == await fetched_soon(sql)


async def test_no_next_job_follows_an_end_while_the_gate_is_not_settled(sql: Session, jobs: list[int]) -> None:
    """More run than the new total allows, so none follows."""
    following = await add_to(sql, "l", "a")
    claims = await fetch(sql, 2, worker=OTHER)
    await sql.execute(TOTAL)
    for claim in claims:
        await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
    _, taken = await claim_next(sql, claims[:1], worker=OTHER)
    beside = await fetched_soon(sql)
    await complete(sql, claims[1:], worker=OTHER)

    assert ([], []) == (taken, beside)
    assert await fetched_soon(sql) in ([following], jobs[2:])


async def test_a_rate_that_is_set_again_counts_the_starts_from_before(sql: Session, jobs: list[int]) -> None:
    """Otherwise more would start in its time than it says."""
    rate = "select asyncq.set_limit('l', total_rate => 1, total_per_s => 60)"
    await sql.execute(rate)
    first = await fetched_soon(sql)
    await sql.execute("select asyncq.set_limit('l', unlimited => '{total_rate}')")
    await sql.execute(rate)

    assert jobs[:1] == first
    assert [] == await fetched_soon(sql)

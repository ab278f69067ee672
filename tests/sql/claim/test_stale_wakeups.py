"""`fetch_partitions`: a fetch deletes the wakeups of the jobs that it takes, and skips partitions without a job."""

from itertools import count

import pytest

from asyncq.store.arrays import array_text
from tests.support.jobs import WORKER, add, complete, fetch, jobs_of
from tests.support.session import Session

TENANTS = """
insert into asyncq._limits (id, name, at_once) values (9, 'tenants', 3);
update asyncq._tasks set limit_id = 9, by = '{tenant}' where identifier = 't'
"""
WAKEUPS = "select count(*) from asyncq._wakeups"
_tokens = count(5001)


async def add_of(sql: Session, tenant: int, run_at: str | None = None) -> int:
    """Add a job of a tenant in a statement of its own, so with a wakeup of its own."""
    ago = f"asyncq.now() - interval '1 min' + {next(_tokens)} * interval '1 ms'"
    return await add(sql, payload=f'{{"tenant": {tenant}}}', run_at=run_at or ago)


async def one_fetch(sql: Session, most: int) -> list[int]:
    """The jobs of one statement, which a worker would send again if something is left."""
    ids = await sql.values("select id from asyncq._tasks")
    token = next(_tokens)
    arguments = (WORKER, token, most, array_text(ids), None, None, None, None, None, None, 1000, "{}", None)
    return [job["id"] for job in jobs_of(await sql.run("fetch_partitions", *arguments), token)]


@pytest.fixture(autouse=True)
async def tenants(sql: Session) -> None:
    """A limit of three by tenant."""
    await sql.execute("select asyncq._store_tasks(array['t', 'plain'])")
    await sql.execute(TENANTS)


async def test_a_fetch_leaves_one_wakeup_for_each_job_that_waits(sql: Session) -> None:
    """Also if the wakeups of taken jobs, and of the first ones that are left, are behind those that it looks at."""
    for tenant in (1, *range(2, 42), *range(2, 42), *range(2, 42), 1):
        await add_of(sql, tenant)

    taken = await one_fetch(sql, 40)

    assert 40 == len(taken)
    assert 122 - 40 == await sql.value(WAKEUPS)
    assert 122 - 40 == await sql.value("select count(*) from asyncq._jobs where locked_at is null")


@pytest.mark.parametrize("most", [1, 10])
async def test_a_job_behind_partitions_that_have_none_starts_by_the_first_fetch(sql: Session, most: int) -> None:
    """The ends of the last jobs of tenants wait to be counted. They take no place of a job."""
    for tenant in range(15):
        await add_of(sql, tenant)
    await complete(sql, await fetch(sql))
    job = await add_of(sql, 100, "asyncq.now()")
    before = await sql.value(WAKEUPS)

    assert 16 == before
    assert [job] == await one_fetch(sql, most)
    assert 0 == await sql.value(WAKEUPS)
    assert [1] == await sql.values("select running from asyncq._partitions where running <> 0")


async def test_partitions_without_a_row_and_a_job_are_forgotten(sql: Session) -> None:
    """Their jobs were removed before a fetch looked at them."""
    jobs = [await add_of(sql, tenant) for tenant in range(15)]
    await sql.rows("select asyncq.cancel_jobs($1)", jobs)
    last = await add_of(sql, 100)

    assert [last] == await one_fetch(sql, 1)
    assert 0 == await sql.value(WAKEUPS)


async def test_ends_are_counted_while_all_slots_go_to_jobs_without_a_partition(sql: Session) -> None:
    """Otherwise a worker would look at their partitions with each fetch, for as long as such jobs wait."""
    plain = [await add(sql, "plain", run_at="asyncq.now() - interval '1 h'") for _ in range(20)]
    for tenant in range(3):
        await add_of(sql, tenant)
    await complete(sql, await fetch(sql, tasks=["t"]))
    brought = await one_fetch(sql, 10)

    assert 20 == len(plain)
    assert [] == brought
    assert 0 == await sql.value(WAKEUPS)


async def test_a_partition_whose_only_job_a_worker_may_not_run_wakes_others(sql: Session) -> None:
    """It has no job for this worker, but the job is still found by a worker that may run it."""
    await sql.execute("""select asyncq.add_job('t', '{"tenant": 1}', flags => '{gpu}')""")
    forbidden = await fetch(sql, forbidden=["gpu"])

    assert [] == forbidden
    assert 1 == await sql.value("select count(*) from asyncq._wakeups where flags is not null")
    assert 1 == len(await fetch(sql))

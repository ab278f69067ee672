"""`expire_jobs`: waiting jobs that have expired end as cancelled, a few at a time."""

import pytest

from asyncq.store.arrays import array_numbers
from tests.support.jobs import add, claimed, fetch
from tests.support.marked import ended, keep
from tests.support.session import Session, session

EXPIRE = "update asyncq._jobs set expires_at = asyncq.now() - interval '1 s' * $2 where id = $1"


async def expired(sql: Session, seconds_ago: float, **options: str) -> int:
    """Add a job that has expired so long ago. Returns its id."""
    job = await add(sql, **options)  # type: ignore[arg-type]
    await sql.rows(EXPIRE, job, seconds_ago)
    return job


async def expire(sql: Session, most: int = 100) -> list[int]:
    """End jobs that have expired. Returns their ids."""
    (row,) = await sql.run("expire_jobs", most)
    return array_numbers(row["ids"])


async def test_waiting_jobs_that_have_expired_end_as_cancelled(sql: Session) -> None:
    """The earliest comes first. Who asked to keep an ended job finds it."""
    late, early = await expired(sql, 1), await expired(sql, 60)
    await keep(sql, early)
    others = [await add(sql), await expired(sql, -60)]

    assert [early, late] == await expire(sql)
    assert others == await sql.values("select id from asyncq._jobs order by id")
    assert [(early, "cancelled")] == await ended(sql)


async def test_a_job_that_no_fetch_takes_expires(sql: Session) -> None:
    """Its queue is busy, its time lies ahead, or no worker knows its task."""
    running = await add(sql, queue="q")
    await fetch(sql)
    jobs = [await expired(sql, 3, queue="q"), await expired(sql, 2, task="unknown")]
    jobs.append(await expired(sql, 1, run_at="asyncq.now() + interval '1 h'"))

    assert jobs == await expire(sql)
    assert [running] == await claimed(sql)


async def test_claims_and_discarded_jobs_are_left_alone(sql: Session) -> None:
    """A claim is its worker's, and what was discarded stays to be looked at."""
    claim = await expired(sql, 1)
    await fetch(sql)
    discarded = await expired(sql, 1)
    await sql.rows("update asyncq._jobs set attempts = max_attempts where id = $1", discarded)

    assert [] == await expire(sql)
    assert [claim, discarded] == await sql.values("select id from asyncq._jobs order by id")


async def test_it_ends_so_many_at_most(sql: Session) -> None:
    """No other statement waits for it long."""
    jobs = [await expired(sql, 10 - i) for i in range(5)]

    assert [jobs[:2], jobs[2:4], jobs[4:], []] == [await expire(sql, 2) for _ in range(4)]


async def test_locked_jobs_are_skipped(own: Session, dsn: str) -> None:
    """A fetch, an add under its key or a cancellation decides about them."""
    first, second = await expired(own, 2), await expired(own, 1)
    async with session(dsn, own.schema) as other:
        async with other.connection.transaction():
            await other.rows("select from asyncq._jobs where id = $1 for update", first)
            while_locked = await expire(own)
        afterwards = await expire(own)

    assert ([second], [first]) == (while_locked, afterwards)


@pytest.mark.parametrize("enabled", ["on", "off"])
async def test_other_jobs_are_not_read(sql: Session, enabled: str) -> None:
    """There may be a million, in which nothing expires."""
    await sql.execute(f"set local enable_bitmapscan = {enabled}; set local enable_seqscan = off")
    plan = await sql.values("""
        explain select job.id from asyncq._jobs as job
        where job.expires_at is not null and job.expires_at <= asyncq.now() and asyncq._is_ready(job)
        order by job.expires_at limit 100 for update skip locked""")

    assert any("jobs_expires" in line for line in plan)
    assert not any("Seq Scan" in line for line in plan)

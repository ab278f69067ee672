"""How much ends, looks and adds read and write, with many waiters of a job, and with many dead edges of a waiter."""

import json
from collections.abc import AsyncIterator, Awaitable

import pytest

from tests.support.jobs import add
from tests.support.session import KeptConnections, Session
from tests.support.waits import left, look, wait_for

MANY = 300
DEAD = 10_000
COMPLETE = "select from asyncq.complete_jobs(array[$1::bigint])"
# What the indexes of edges have returned, dead edges too.
READ = """
select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int from pg_index where indrelid = 'asyncq._waits'::regclass
"""
SCANS = "select pg_stat_get_xact_numscans('asyncq._waits'::regclass)"
UPDATED = "select pg_stat_get_xact_tuples_updated('asyncq._jobs'::regclass)"
SPEC = """('w', '{}', null, null, null, null, null, null, null, $1::text::jsonb)::asyncq.job_spec"""
ADD_MANY = f"select asyncq.add_jobs(array(select {SPEC} from generate_series(1, {MANY})))"
CLOSING = "insert into asyncq._closings (waiter, job_id, state) values ($1, $2, 'completed')"
# Edges of jobs that have ended; they come before the ones that stay, or behind them.
FILL = f"""
insert into asyncq._waits select $1, i from generate_series($2::bigint, $2::bigint + {DEAD} - 1) as i
"""


async def reading(own: Session, call: Awaitable[object]) -> tuple[int, int]:
    """Run a call in a transaction. Returns how many entries of indexes it read, and how often it read all edges."""
    async with own.connection.transaction():
        read, scans = await own.value(READ), await own.value(SCANS)
        await call
        return await own.value(READ) - read, await own.value(SCANS) - scans


@pytest.fixture
async def reader(kept_connections: KeptConnections, own: Session) -> AsyncIterator[Session]:
    """Another session. Its old snapshot keeps the marks of dead edges out of the indexes."""
    async with kept_connections.session(own.schema) as opened:
        yield opened


async def test_the_end_of_a_job_reads_each_edge_of_its_waiters_a_few_times(own: Session) -> None:
    """For each waiter it looks for another edge of that waiter, and never at those of other waiters.

    Also if one waiter has nearly all edges, so that any edge seems to be one of its own.
    """
    job = await add(own)
    await own.rows(FILL, 1_000_000, 1_000_000)
    await own.execute("analyze asyncq._waits")
    await own.rows(ADD_MANY, json.dumps({"after": [job]}))
    read, scans = await reading(own, own.rows(COMPLETE, job))

    assert ((DEAD, MANY), True, 0) == (await left(own), MANY <= read <= 6 * MANY, scans)
    await own.rows("delete from asyncq._waits")
    await look(own)


@pytest.mark.parametrize("is_analysed", [False, True])
async def test_an_end_reads_one_other_edge_of_its_waiter(own: Session, is_analysed: bool) -> None:
    """Not all of them, to sort them: each of many ends would do so."""
    job = await add(own)
    waiter = await wait_for(own, job)
    await own.rows(FILL, waiter, 1_000_000)
    if is_analysed:
        await own.execute("analyze asyncq._waits")
    read, scans = await reading(own, own.rows(COMPLETE, job))

    assert ((DEAD, 0), True, 0) == (await left(own), read <= 10, scans)
    await own.execute("delete from asyncq._waits; delete from asyncq._jobs")


async def test_many_jobs_that_wait_for_one_write_its_row_once(own: Session) -> None:
    """Each version of the row would be passed by the next one."""
    job = await add(own)
    async with own.connection.transaction():
        before = await own.value(UPDATED)
        await own.rows(ADD_MANY, json.dumps({"after": [job]}))
        updated = await own.value(UPDATED) - before

    assert (1, (MANY, 0)) == (updated, await left(own))


@pytest.mark.parametrize("first", [-DEAD, 1_000_000])
async def test_dead_edges_are_passed_at_most_a_few_times(own: Session, reader: Session, first: int) -> None:
    """By an end, and by a look that finds an edge behind them."""
    jobs = [await add(own), await add(own)]
    waiter = await wait_for(own, *jobs)
    await own.rows(FILL, waiter, first)
    async with reader.connection.transaction(isolation="repeatable_read"):
        await reader.rows("select from asyncq._waits limit 1")
        await own.rows("delete from asyncq._waits where job_id <> all($1::bigint[])", jobs)
        ended = await reading(own, own.rows(COMPLETE, jobs[0]))
        await own.rows(CLOSING, waiter, jobs[0])
        looked = await reading(own, look(own))

    assert ((1, 0), 0, 0) == (await left(own), ended[1], looked[1])
    assert (True, True) == (ended[0] <= 2 * DEAD, looked[0] <= 3 * DEAD)

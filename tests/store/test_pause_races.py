"""A pause or its end commits between the snapshot of a statement and its locks: each case by a forced interleaving."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.gate import Gate
from tests.support.handoffs import HOLD, fill, fill_awaited, open_slot, register
from tests.support.jobs import add, claimed, complete, fetch, fetched
from tests.support.session import Session

LIMIT = "insert into asyncq._limits (id, name, at_once) values (9, 'tenants', 2)"
LIMITED = "select asyncq._store_tasks('{t}'); update asyncq._tasks set limit_id = 9, by = '{tenant}'"
ACME = '{"tenant": "acme"}'
QUEUE, KEY = "queue => 'q'", "limit_name => 'tenants', key => 'acme'"


async def claimed_rows(sql: Session) -> list[dict[str, int]]:
    """The claims, as `complete` takes them."""
    return [dict(row) for row in await sql.rows("select id, lock_token from asyncq._jobs where locked_by is not null")]


async def ready(sql: Session, named: str) -> int:
    """Add a job of the queue or of the key."""
    await sql.execute(LIMIT)
    if named == KEY:
        await sql.execute(LIMITED)
    return await add(sql, queue="q" if named == QUEUE else None, payload=ACME)


@pytest.mark.parametrize("named", [QUEUE, KEY])
@pytest.mark.parametrize("is_known", [True, False], ids=["with a row", "without a row"])
async def test_of_a_queue_or_key_the_newest_state_decides(
    gate: Gate, fetcher: Session, other: Session, named: str, is_known: bool
) -> None:
    """The snapshot of the fetch is older than the pause, but the row of the partition is read under its lock.

    A partition without a row gets one by the pause, and the fetch cannot insert it any more.
    """
    job = await ready(other, named)
    if is_known:
        await complete(other, await fetch(other))
        job = await add(other, queue="q" if named == QUEUE else None, payload=ACME)

    assert [] == await gate.during(fetched(fetcher), other.rows(f"select asyncq.pause({named})"))
    assert [] == await fetched(other)
    await other.rows(f"select asyncq.resume({named})")
    assert [job] == await fetched(other)
    await complete(other, await claimed_rows(other))


@pytest.mark.parametrize("named", [QUEUE, KEY])
async def test_a_resume_beside_a_fetch_that_saw_the_pause_strands_no_job(
    gate: Gate, fetcher: Session, other: Session, named: str
) -> None:
    """A fetch deletes the wakeups of a paused partition. The resume waits for its lock, then wakes the partition."""
    await ready(other, named)
    await other.rows(f"select asyncq.pause({named})")
    async with fetcher.connection.transaction():
        assert [] == await fetched(fetcher)
        job = await add(other, queue="q" if named == QUEUE else None, payload=ACME, priority=-1)
        await other.execute("set lock_timeout = '50ms'")
        error = await other.refusal(f"select asyncq.resume({named})")
    await other.rows(f"select asyncq.resume({named})")

    assert ("55P03", [job]) == (error.sqlstate, await fetched(other, 1))
    assert [] == await other.rows("select * from asyncq.violations() where law = 'stranded_partition'")
    await complete(other, await claimed_rows(other))


@pytest.mark.parametrize("named", ["task => 't'", ""])
async def test_a_statement_that_began_before_a_pause_of_a_task_or_of_everything_does_not_see_it(
    gate: Gate, fetcher: Session, other: Session, named: str
) -> None:
    """The guide says so. The next statement sees it."""
    job = await add(other, queue="q")

    assert [job] == await gate.during(fetched(fetcher, 1), other.rows(f"select asyncq.pause({named})"))
    await add(other)
    assert ([], [job]) == (await fetched(other), await claimed(other))
    await complete(other, await claimed_rows(other))


@pytest.mark.parametrize("named", ["task => 't'", ""])
@pytest.mark.parametrize("add_by", [fill, fill_awaited], ids=["plain", "awaited"])
async def test_an_open_add_starts_one_job_at_most_after_a_pause(
    sql: Session, other: Session, named: str, add_by: Callable[[Session], Awaitable[int | None]]
) -> None:
    """It hands its job to a worker, and commits after the pause. Later adds fill no slot, not even its own."""
    workers = [await open_slot(sql, 11), await open_slot(other, 12)]
    async with other.connection.transaction():
        handed = await add_by(other)
        await sql.rows(f"select asyncq.pause({named})")
        later = [await add_by(other), await add_by(sql)]
    await sql.run("force_unlock_workers", [str(worker) for worker in workers])

    assert handed is not None
    assert [None, None] == later


async def test_no_slot_is_opened_while_everything_is_paused(sql: Session) -> None:
    """No add would fill it."""
    await sql.rows("select asyncq.pause()")
    ((is_open,),) = await sql.run("open_slot", await register(sql), 11, 0, "{1}", "{1}", "c", HOLD)

    assert is_open is None

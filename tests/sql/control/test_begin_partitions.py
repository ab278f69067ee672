"""`_begin_partitions`: a fetch stores partitions of which it has locked jobs; see tests/store/test_queue_races.py."""

from collections.abc import AsyncIterator

import anyio
import pytest

from tests.support.ear import Ear
from tests.support.jobs import NO_PARTITIONS
from tests.support.session import Session, session
from tests.support.waiting import LIMIT_S

BEGIN = "select asyncq._begin_partitions($1::bigint[], $2::int[], $3::text[], $4::bigint[], $5::text[])"
STORED = "select id from asyncq._partitions order by id"


async def begin(sql: Session, ids: list[int], *, running: int = 1) -> list[int]:
    """Store partitions in which so many jobs run."""
    nothing = [None] * len(ids)
    return await sql.value(BEGIN, ids, [running] * len(ids), [f"k{id_}" for id_ in ids], nothing, nothing)


@pytest.fixture
async def emptied(own: Session) -> AsyncIterator[Session]:
    """A session that commits, and leaves no partition."""
    yield own
    await own.execute(NO_PARTITIONS)


async def test_partitions_are_stored_with_the_claims_that_were_made(sql: Session) -> None:
    """The count, the key, and the starts that a rate counts."""
    begun = await sql.value(BEGIN, [8, 7], [2, 0], ["b", None], [5, None], ["{2,0,0,0,0,0,0,0,0,0,0}", None])
    rows = await sql.rows("select id, running, key, cell, cells from asyncq._partitions order by id")

    assert [7, 8] == sorted(begun)
    assert [(7, 0, None, None, None), (8, 2, "b", 5, [2] + [0] * 10)] == [tuple(row) for row in rows]


async def test_partitions_that_exist_are_skipped_and_stay_as_they_are(sql: Session) -> None:
    """Another fetch has begun them, and counts its own claims."""
    await begin(sql, [1, 2])

    assert [3] == await begin(sql, [2, 3], running=5)
    assert [] == await begin(sql, [1], running=5)
    assert [1, 1, 5] == await sql.values("select running from asyncq._partitions order by id")


async def test_partitions_are_stored_in_the_order_of_their_numbers(emptied: Session) -> None:
    """Two fetches that stored them in other orders would wait for each other.

    In an empty table rows are in the order in which they were written.
    """
    ids = [i * 37 % 100 for i in range(100)]
    await emptied.execute("begin; truncate asyncq._partitions; set local enable_sort = off")
    await begin(emptied, ids)
    stored = await emptied.values("select id from asyncq._partitions order by ctid")
    await emptied.execute("rollback")

    assert sorted(ids) == stored


async def test_no_partitions_are_no_error(sql: Session) -> None:
    """None is stored or missed."""
    assert [] == await begin(sql, [])


async def test_a_fetch_that_leaves_a_job_notifies_all(emptied: Session, ear: Ear) -> None:
    """The job was locked for a moment. Another worker may have skipped it just then, and gone to sleep."""
    await begin(emptied, [1])
    before = len(await ear.received())
    await begin(emptied, [1, 2])

    assert (0, 1) == (before, len(await ear.received()))


async def test_a_partition_that_an_open_transaction_stores_is_skipped_and_the_others_are_stored(
    dsn: str, emptied: Session
) -> None:
    """A fetch whose worker does not read its answer stays open for long, and must not block others."""
    await emptied.execute("set lock_timeout = '5s'")
    async with session(dsn, emptied.schema) as other, other.connection.transaction():
        await begin(other, [7, 31])
        with anyio.fail_after(LIMIT_S):
            begun = await begin(emptied, [*range(40)])
        stored = await emptied.values(STORED)

    assert [id_ for id_ in range(40) if id_ not in (7, 31)] == sorted(begun) == stored
    assert "5s" == await emptied.value("show lock_timeout")


async def test_a_partition_that_an_open_transaction_stores_notifies_nobody(
    dsn: str, emptied: Session, ear: Ear
) -> None:
    """Otherwise all workers would fetch again and again while it is open."""
    async with session(dsn, emptied.schema) as other, other.connection.transaction():
        await begin(other, [1])
        begun = await begin(emptied, [1, 2])
        heard = await ear.received()

    assert ([2], []) == (begun, heard)

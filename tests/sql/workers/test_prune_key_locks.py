"""`prune_key_locks`: a walk removes key locks that were unused for a day; an add inserts its key lock again."""

import json

import pytest

from tests.support.session import Session, session

FIRST = -(2**63)
FILL = """
insert into asyncq._key_locks (key, used_at)
select i, now() - case when i % 2 = 0 then interval '25 h' else interval '23 h' end
from generate_series({first}, {last}) as i
"""
KEY_LOCKS = "select key from asyncq._key_locks order by key"


async def prune_key_locks(sql: Session, after: int = FIRST, most: int = 100) -> tuple[int, int | None]:
    """Make one step of the walk. Returns how many key locks were removed, and where the next step begins."""
    (row,) = await sql.run("prune_key_locks", after, most)
    return tuple(row)


async def test_key_locks_that_were_not_used_for_a_day_are_removed(sql: Session) -> None:
    """A key that is used each day costs one row, one that was used once none."""
    await sql.execute(FILL.format(first=-3, last=4))

    assert (4, 4) == await prune_key_locks(sql)
    assert [-3, -1, 1, 3] == await sql.values(KEY_LOCKS)


async def test_a_walk_covers_all_key_locks_a_few_at_a_time(sql: Session) -> None:
    """It continues to the end even where nothing is removed."""
    await sql.execute(FILL.format(first=1, last=7))
    steps = []
    at: int | None = FIRST
    while at is not None:
        steps.append(await prune_key_locks(sql, at, most=3))
        at = steps[-1][1]

    assert [(1, 3), (2, 6), (0, 7), (0, None)] == steps
    assert [1, 3, 5, 7] == await sql.values(KEY_LOCKS)


async def test_a_key_lock_that_is_held_is_skipped(dsn: str, own: Session) -> None:
    """Its row is locked, since it is being used."""
    await own.execute("insert into asyncq._key_locks (key, used_at) values (2, now() - interval '2 days')")
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("update asyncq._key_locks set used_at = clock_timestamp()")
        first = await prune_key_locks(own)

    assert ((0, 2), (0, 2)) == (first, await prune_key_locks(own))


@pytest.mark.parametrize("analysed", [False, True])
async def test_a_step_reads_only_its_few_key_locks(own: Session, analysed: bool) -> None:
    """There are 20,000."""
    await own.execute(FILL.format(first=1, last=20000))
    if analysed:
        await own.execute("analyze asyncq._key_locks")
    await prune_key_locks(own, 19_000, 10)
    answer = await own.value(
        "explain (analyze, buffers, format json) select * from asyncq._prune_key_locks(15000, 100)"
    )
    (plan,) = json.loads(answer)

    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] <= 1000

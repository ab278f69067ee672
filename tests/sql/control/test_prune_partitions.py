"""`_prune_partitions`: a walk that removes idle partitions."""

from tests.sql.control.test_declare_limits import declare
from tests.sql.control.test_partition_upkeep import KEYED, PARTITIONS, add_keys
from tests.support.jobs import complete, fetch, fetched
from tests.support.session import Session


async def test_idle_partitions_are_removed(sql: Session) -> None:
    """One that runs, is paused, or has a value of its own stays, and so do gates."""
    await declare(sql, t={**KEYED, "total": 9}, queues={"wide": 2})
    await add_keys(sql, "abcd")
    claims = await fetch(sql)
    await sql.rows("select asyncq.set_partition('t', 'b', weight => 2)")
    await sql.rows("select asyncq.pause(limit_name => 't', key => 'c')")
    await complete(sql, claims[1:])
    await fetched(sql)
    before = await sql.value(PARTITIONS)
    last = await sql.run("prune_partitions", 0, 500)

    assert (6, 5, None) == (before, await sql.value(PARTITIONS), last[0]["last_id"])


async def test_starts_that_a_rate_counts_keep_their_partition(sql: Session) -> None:
    """Removed, it would forget them, and let a burst through."""
    await declare(sql, t={"rate": 2, "per_s": 60, "by": ["k"]})
    await add_keys(sql, "a")
    await complete(sql, await fetch(sql))
    await fetched(sql)
    await sql.run("prune_partitions", 0, 500)
    kept = await sql.value(PARTITIONS)
    await sql.execute("update asyncq._partitions set cell = cell - 20")
    await sql.run("prune_partitions", 0, 500)

    assert (1, 0) == (kept, await sql.value(PARTITIONS))


async def test_the_walk_goes_on_behind_the_last_partition(sql: Session) -> None:
    """A page at a time: no statement is long."""
    await sql.execute("insert into asyncq._partitions (id) values (5), (6), (7)")

    assert [6, None] == [(await sql.run("prune_partitions", after, 2))[0]["last_id"] for after in (0, 6)]
    assert 0 == await sql.value(PARTITIONS)

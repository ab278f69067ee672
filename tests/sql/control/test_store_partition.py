"""`_store_partition`: a queue or key has the declared values, and in their place those that were set."""

from tests.support.jobs import add, fetched
from tests.support.session import Session

STORE = """
select asyncq._store_partition(jsonb_populate_record(held, $1::text::jsonb))
from asyncq._partitions as held where held.key = 'q'"""


async def test_what_was_set_replaces_what_was_declared(sql: Session) -> None:
    """Without any value it is held to its limit."""
    await sql.execute("insert into asyncq._partitions (id, key) values (asyncq._partition(1::smallint, 'q'), 'q')")
    await sql.rows(STORE, '{"declared": {"at_once": 3}, "overrides": {"at_once": 5, "weight": 2}}')
    both = tuple(await sql.row("select at_once, weight from asyncq._partitions"))
    await sql.rows(STORE, '{"overrides": null, "declared": null}')

    assert ((5, 2.0), (None, 1.0)) == (both, tuple(await sql.row("select at_once, weight from asyncq._partitions")))


async def test_a_higher_limit_wakes_the_jobs_that_wait(sql: Session) -> None:
    """A full queue has no wakeup."""
    jobs = [await add(sql, queue="q") for _ in range(3)]
    before = [await fetched(sql), await fetched(sql)]
    await sql.rows(STORE, '{"declared": {"at_once": 2}}')

    assert ([jobs[:1], []], jobs[1:2]) == (before, await fetched(sql))

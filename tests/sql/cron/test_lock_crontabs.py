"""`_lock_crontabs`: items are locked in one order; an item that is locked for long is skipped."""

from tests.support.session import Session
from tests.support.slots import at

HOLD = "select asyncq._lock_crontabs($1::text[], $2::timestamptz[], $3::bigint[])"


async def test_items_of_a_crontab_become_known_since_their_first_slot(sql: Session) -> None:
    """Stored ones are known, or were removed."""
    assert [] == await sql.value(HOLD, ["b", "a", "a", "s"], [at(1), at(3), at(2), at(1)], [None, None, None, 7])
    assert [("a", at(2)), ("b", at(1))] == [
        tuple(row) for row in await sql.rows("select identifier, known_since from asyncq.known_crontabs order by 1")
    ]


async def test_an_item_that_is_locked_for_long_is_reported_and_the_others_are_locked(
    dsn: str, schema: str, own: Session
) -> None:
    """A transaction that paused it may stay open."""
    from tests.support.session import session

    await own.execute("insert into asyncq.known_crontabs select name, now() from unnest('{a,b,c}'::text[]) as name")
    await own.execute("begin; select from asyncq.known_crontabs where identifier = 'b' for update")
    async with session(dsn, schema, lock_timeout="50ms") as other:
        await other.execute("begin")
        busy = await other.value(HOLD, ["c", "b", "a"], [at(1)] * 3, [None] * 3)
        held = await other.values("select identifier from asyncq.known_crontabs order by 1 for update skip locked")
        await other.execute("rollback")
    await own.execute("rollback")

    assert (["b"], ["a", "c"]) == (busy, held)

"""`_due_slots`: due is what is later than the last slot of its item."""

from tests.support.session import Session
from tests.support.slots import add_slots, at, due, last


async def test_a_slot_is_due_until_it_was_added(sql: Session) -> None:
    """One of all workers with the same crontab adds the job."""
    assert [("a", 1)] == await due(sql, ("a", 1))
    await add_slots(sql, ("a", 1))

    assert [("a", 2)] == await due(sql, ("a", 1), ("a", 2))


async def test_of_several_slots_all_later_ones_are_due(sql: Session) -> None:
    """A worker that was away has several; two that fill in the same gap share it, wherever the first one stopped."""
    await add_slots(sql, ("a", 2))

    assert [("a", 4), ("b", 1), ("a", 3)] == await due(sql, ("a", 4), ("a", 1), ("b", 1), ("a", 2), ("a", 3))


async def test_a_clock_that_goes_back_makes_nothing_due(sql: Session) -> None:
    """Neither repeated minutes nor earlier ones are due."""
    await add_slots(sql, ("a", 30))

    assert [] == await due(sql, ("a", 29), ("a", 1))


async def test_the_same_slot_twice_in_one_call_is_due_once(sql: Session) -> None:
    """A faulty call must not double a job."""
    assert [("a", 1)] == await due(sql, ("a", 1), ("a", 1))


async def test_an_item_that_was_registered_keeps_the_time_since_when_it_is_known(sql: Session) -> None:
    """An unregistered item is known since its first slot. A check alone adds nothing."""
    await sql.execute("insert into asyncq.known_crontabs values ('a', '2020-01-01 00:00Z')")
    await due(sql, ("a", 1), ("b", 2), ("b", 1))

    since = await sql.values("select known_since from asyncq.known_crontabs order by identifier")

    assert (2020, at(1)) == (since[0].year, since[1])
    assert [] == await last(sql)


async def test_no_slots_are_none_that_is_due(sql: Session) -> None:
    """An empty array, not null."""
    assert [] == await due(sql)


async def test_an_item_that_is_not_due_is_not_locked(own: Session) -> None:
    """Most workers arrive after another one has added the slot: they must neither write nor wait."""
    await own.execute("insert into asyncq.known_crontabs values ('a', '2020-01-01 00:00Z', '2026-01-01 00:00Z')")
    await due(own, ("a", 1))

    assert await own.value("select xmax = 0 from asyncq.known_crontabs")

"""`_addable_slots`: the slots that may still become jobs now."""

from tests.support.cron_items import add_item, declare, revision
from tests.support.session import Session
from tests.support.slots import at

OPEN = "select asyncq._addable_slots($1::text[], $2::timestamptz[], $3::bigint[])"
KNOW = "insert into asyncq.known_crontabs (identifier, known_since, {column}) values ('a', '2020-01-01 00:00Z', $1)"


async def open_minutes(sql: Session, *minutes: int, revision: int | None = None) -> list[int]:
    """Which of these minutes of the item `a` are open."""
    ords = await sql.value(OPEN, ["a"] * len(minutes), [at(minute) for minute in minutes], [revision] * len(minutes))
    return [minutes[ord_ - 1] for ord_ in ords]


async def test_slots_later_than_the_last_one_are_open(sql: Session) -> None:
    """A repeated slot counts once."""
    await sql.rows(KNOW.format(column="last_execution"), at(2))

    assert [3, 4] == await open_minutes(sql, 1, 3, 2, 4, 3)


async def test_slots_before_the_end_of_a_pause_are_not_open(sql: Session) -> None:
    """The slot at that very moment is open."""
    await sql.rows(KNOW.format(column="not_before"), at(2))

    assert [2, 3] == await open_minutes(sql, 1, 2, 3)


async def test_no_slot_of_a_paused_item_is_open(sql: Session) -> None:
    """A worker may not have noticed the pause yet."""
    await sql.rows(KNOW.format(column="paused_at"), at(2))

    assert [] == await open_minutes(sql, 1, 3)


async def test_a_stored_item_is_open_under_its_revision_only(sql: Session) -> None:
    """A worker that read the item before a change or a removal adds nothing."""
    await add_item(sql, "a")
    await sql.execute("update asyncq.known_crontabs set not_before = null")
    now = await revision(sql)
    before = [await open_minutes(sql, 1, revision=number) for number in (now, now + 1)]
    await sql.rows("select asyncq.remove_cron_item('a')")

    assert [[1], []] == before
    assert [] == await open_minutes(sql, 1, revision=now)


async def test_a_stored_item_is_not_open_while_a_live_worker_has_one_of_its_name(sql: Session) -> None:
    """The worker's own item is."""
    await add_item(sql, "a")
    await sql.execute("update asyncq.known_crontabs set not_before = null")
    now = await revision(sql)
    await declare(sql, a={"task": "t"})
    shadowed, static = await open_minutes(sql, 1, revision=now), await open_minutes(sql, 1)
    await sql.execute("delete from asyncq._workers")

    assert ([], [1], [1]) == (shadowed, static, await open_minutes(sql, 1, revision=now))

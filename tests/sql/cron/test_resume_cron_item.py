"""`resume_cron_item`: the pause ends, and with it all that was due."""

from tests.support.cron_items import add_item, known
from tests.support.session import Session

RESUME = "select (asyncq.resume_cron_item('a')).paused_at"


async def test_slots_before_the_end_of_the_pause_are_not_added(sql: Session) -> None:
    """The current time counts, not the start of the transaction."""
    await add_item(sql, "a")
    paused_at = await sql.value("select (asyncq.pause_cron_item('a')).paused_at")

    assert None is await sql.value(RESUME)
    assert (await known(sql))["not_before"] > paused_at


async def test_an_item_that_is_not_paused_stays_as_it_is(sql: Session) -> None:
    """Otherwise a script that always resumes would delete missed slots."""
    await add_item(sql, "a")
    before = await known(sql)
    await sql.rows(RESUME)

    assert before == await known(sql)


async def test_a_missing_item_cannot_be_resumed(sql: Session) -> None:
    """The error names it."""
    assert "GWBCN" == (await sql.refusal(RESUME)).sqlstate

"""`resume_cron_item`: the pause ends, and with it all that was due."""

from tests.support.cron_items import add_item, known
from tests.support.session import Session

RESUME = "select (asyncq.resume_cron_item('a')).paused_at"


async def test_slots_before_the_end_of_the_pause_are_done_with(sql: Session) -> None:
    """By the clock at that instant, not at the start of the transaction."""
    await add_item(sql, "a")
    paused_at = await sql.value("select (asyncq.pause_cron_item('a')).paused_at")

    assert None is await sql.value(RESUME)
    assert (await known(sql))["not_before"] > paused_at


async def test_an_item_that_is_not_paused_stays_as_it_is(sql: Session) -> None:
    """Else a script that resumes each time would cost it its missed slots."""
    await add_item(sql, "a")
    before = await known(sql)
    await sql.rows(RESUME)

    assert before == await known(sql)


async def test_an_item_that_is_not_there_cannot_be_resumed(sql: Session) -> None:
    """It says so."""
    assert "GWBCN" == (await sql.refusal(RESUME)).sqlstate

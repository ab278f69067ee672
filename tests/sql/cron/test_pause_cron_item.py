"""`pause_cron_item`: a time is remembered, that of the first pause."""

from tests.support.cron_items import add_item, declare, known
from tests.support.session import Session

PAUSE = "select (asyncq.pause_cron_item('a')).paused_at"


async def test_a_paused_item_is_paused_since_the_first_time(sql: Session) -> None:
    """A second pause changes nothing."""
    await add_item(sql, "a")
    first, second = await sql.value(PAUSE), await sql.value(PAUSE)

    assert first is not None
    assert first == second == (await known(sql))["paused_at"]


async def test_an_item_of_a_crontab_can_be_paused(sql: Session) -> None:
    """Its worker may not have added a slot yet."""
    await declare(sql, a={"task": "t"})

    assert await sql.value(PAUSE) is not None


async def test_a_missing_item_cannot_be_paused(sql: Session) -> None:
    """A typo would otherwise be noticed when the item runs."""
    assert "GWBCN" == (await sql.refusal(PAUSE)).sqlstate

"""`_lock_cron_item`: no slot of a locked item is added."""

from tests.support.cron_items import add_item, declare
from tests.support.session import Session

HOLD = "select asyncq._lock_cron_item($1)"


async def test_an_item_that_is_known_is_held(own: Session) -> None:
    """Its row is locked."""
    await add_item(own, "a")
    await own.execute("begin")
    await own.rows(HOLD, "a")

    assert await own.value("select xmax <> 0 from asyncq.known_crontabs")
    await own.execute("rollback")


async def test_an_item_that_only_a_worker_declares_becomes_known(sql: Session) -> None:
    """It can be paused before its first minute."""
    await declare(sql, a={"task": "t"})
    await sql.rows(HOLD, "a")

    assert ["a"] == await sql.values("select identifier from asyncq.known_crontabs")


async def test_a_missing_item_is_an_error(sql: Session) -> None:
    """Null is no item either."""
    errors = [await sql.refusal(HOLD, name) for name in ("a", None)]

    assert [("GWBCN", "there is no recurring item 'a'"), ("GWBCN", "there is no recurring item 'null'")] == [
        (error.sqlstate, str(error)) for error in errors
    ]

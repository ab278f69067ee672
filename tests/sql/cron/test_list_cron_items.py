"""`list_cron_items`: all items, as a table."""

from tests.support.cron_items import add_item, declare
from tests.support.session import Session


async def test_all_items_are_listed(sql: Session) -> None:
    """Any tool that uses SQL can show them."""
    await add_item(sql, "b")
    await declare(sql, a={"task": "t"})

    assert [("a", "static"), ("b", "stored")] == [
        tuple(row) for row in await sql.rows("select identifier, source from asyncq.list_cron_items()")
    ]

"""`change_cron_item`: members of the definition, by their names."""

import json

from tests.support.cron_items import add_item
from tests.support.session import Session


async def test_members_are_changed_and_null_gives_the_default_back(sql: Session) -> None:
    """The rest stays."""
    await add_item(sql, queue="q", tz="Europe/Berlin", payload={"x": 1})
    row = await sql.row(
        """select changed.* from asyncq.change_cron_item('a', '{"expression": "@hourly", "tz": null}') as changed"""
    )

    assert ("@hourly", "UTC", '{"x": 1}', {"queue": "q"}) == (
        row["expression"],
        row["tz"],
        row["payload"],
        json.loads(row["options"]),
    )


async def test_a_change_to_what_is_no_item_is_refused(sql: Session) -> None:
    """By the same rules as a new one."""
    await add_item(sql)
    error = await sql.refusal("""select asyncq.change_cron_item('a', '{"expression": null}')""")

    assert ("22023", "expression is missing") == (error.sqlstate, str(error))

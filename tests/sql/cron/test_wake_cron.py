"""`_wake_cron`: workers are notified of changed items at commit, on a separate channel."""

from tests.support.cron_items import add_item
from tests.support.session import Session, session


async def test_changes_of_items_notify_at_commit(own: Session, dsn: str, schema: str) -> None:
    """Each kind of change notifies; a pause need not, since no slot of a paused item is added."""
    heard: list[str] = []
    async with session(dsn, schema) as listener:
        await listener.connection.add_listener(f"{schema}:cron", lambda *said: heard.append(said[3]))
        counts = []
        for change in (
            "select asyncq.add_cron_item('a', 't', '@daily')",
            """select asyncq.change_cron_item('a', '{"tz": "Europe/Berlin"}')""",
            """select asyncq.change_cron_item('a', '{"tz": "Europe/Berlin"}')""",
            "select asyncq.pause_cron_item('a')",
            "select asyncq.resume_cron_item('a')",
            "select asyncq.remove_cron_item('a')",
        ):
            await own.rows(change)
            await listener.rows("select")
            counts.append(len(heard))
        await own.execute("begin")
        await add_item(own, "a")
        await own.execute("rollback")
        await listener.rows("select")

    assert [1, 2, 2, 2, 3, 4] == counts
    assert [""] * 4 == heard

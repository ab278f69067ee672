"""`_is_declared`: the crontab of a live worker has the item."""

from tests.support.cron_items import declare
from tests.support.session import Session


async def test_an_item_is_declared_as_long_as_its_worker_lives(sql: Session) -> None:
    """And is no other one."""
    await declare(sql, a={})
    asked = "select array[asyncq._is_declared('a'), asyncq._is_declared('b')]"
    alive = await sql.value(asked)
    await sql.execute("update asyncq._workers set last_seen = last_seen - interval '2 h'")

    assert ([True, False], [False, False]) == (alive, await sql.value(asked))

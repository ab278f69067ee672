"""`remove_cron_item`: the item is deleted, its jobs stay."""

from tests.support.cron_items import add_item, declare
from tests.support.jobs import add
from tests.support.session import Session

REMOVE = "select removed.* from asyncq.remove_cron_item('a') as removed"
LEFT = """
select array(select identifier from asyncq._cron_items) || array(select identifier from asyncq.known_crontabs)"""


async def test_a_stored_item_is_removed_with_its_history(sql: Session) -> None:
    """A new item of the same name has no history; the removed definition is returned."""
    await add_item(sql, "a", "@daily")
    await add(sql, "t")
    row = await sql.row(REMOVE)

    assert ("a", "stored", "t", "@daily") == tuple(row)[:4]
    assert [] == await sql.value(LEFT)
    assert 1 == await sql.value("select count(*) from asyncq.jobs")


async def test_an_item_of_a_live_worker_cannot_be_removed(sql: Session) -> None:
    """It would be there again at its next slot."""
    await declare(sql, a={"task": "t"})
    error = await sql.refusal(REMOVE)

    assert ("GWBCS", "the item 'a' is in the crontab of a worker: take it out there; it can be paused") == (
        error.sqlstate,
        str(error),
    )


async def test_a_stored_item_behind_one_of_a_worker_is_removed_alone(sql: Session) -> None:
    """The pause and the last slot belong to the item of the worker."""
    await add_item(sql, "a")
    await declare(sql, a={"task": "t"})
    await sql.rows(REMOVE)

    assert ["a"] == await sql.value(LEFT)


async def test_the_history_of_an_item_of_no_worker_is_deleted(sql: Session) -> None:
    """Otherwise the list would grow for ever."""
    await sql.execute("insert into asyncq.known_crontabs values ('a', now())")
    await sql.rows(REMOVE)

    assert [] == await sql.value(LEFT)


async def test_a_missing_item_cannot_be_removed(sql: Session) -> None:
    """The error names it."""
    assert "GWBCN" == (await sql.refusal(REMOVE)).sqlstate

"""`_report_cron`: the workers' reports on items are stored, unless the item has changed since."""

from datetime import datetime
from typing import Any

from tests.support.cron_items import add_item, revision
from tests.support.session import Session, session
from tests.support.slots import at

SHOWN = """
select known.identifier, next_run, problem, job::text as job
from asyncq.known_crontabs as known left join asyncq._cron_items as stored using (identifier) order by 1"""


async def tell(sql: Session, *items: tuple[str, int | None, datetime | None, str | None, str | None]) -> None:
    """Report items: name, revision, next run, problem, job."""
    await sql.run("report_cron", *([item[part] for item in items] for part in range(5)))


async def shown(sql: Session) -> list[tuple[Any, ...]]:
    """The rows that the view shows."""
    return [tuple(row) for row in await sql.rows(SHOWN)]


async def test_next_runs_problems_and_jobs_are_stored(sql: Session) -> None:
    """For static items only the next run is stored."""
    await add_item(sql, "a")
    await add_item(sql, "b")
    await sql.execute("insert into asyncq.known_crontabs values ('c', now())")
    await tell(
        sql,
        ("a", await revision(sql, "a"), at(1), None, '{"queue": "q"}'),
        ("b", await revision(sql, "b"), None, "bad", None),
        ("c", None, at(2), None, None),
    )

    expected = [("a", at(1), None, '{"queue": "q"}'), ("b", None, "bad", None), ("c", at(2), None, None)]
    assert expected == await shown(sql)


async def test_a_report_on_another_revision_is_ignored(sql: Session) -> None:
    """The item was changed while the worker computed it."""
    await add_item(sql, "a")
    await tell(sql, ("a", await revision(sql) + 1, at(1), "bad", "{}"))

    assert [("a", None, None, None)] == await shown(sql)


async def test_an_unchanged_report_is_not_written_again(own: Session) -> None:
    """Each worker reports at its start."""
    await add_item(own, "a")
    told = ("a", await revision(own), at(1), None, "{}")
    await tell(own, told)
    before = await own.values("select xmin::text from asyncq._cron_items")
    await tell(own, told)

    assert before == await own.values("select xmin::text from asyncq._cron_items")


async def test_an_item_that_is_locked_is_left_out(own: Session, dsn: str, schema: str) -> None:
    """A report is only informative, and waits for nobody."""
    await add_item(own, "a")
    await add_item(own, "b")
    told = [(name, await revision(own, name), at(1), None, None) for name in ("a", "b")]
    await own.execute("begin; select from asyncq.known_crontabs where identifier = 'a' for update")
    async with session(dsn, schema, lock_timeout="1ms") as other:
        await tell(other, *told)
    await own.execute("rollback")

    assert [("a", None), ("b", at(1))] == [row[:2] for row in await shown(own)]

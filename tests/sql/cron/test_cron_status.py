"""`_cron_status`: the source of an item, and its status."""

import json
from typing import Any

from tests.support.cron_items import add_item, declare
from tests.support.session import Session

STATUS = """
select identifier, source, task_identifier, expression, problem, workers from asyncq._cron_status($1::text[])"""


async def status(sql: Session, *items: str) -> list[tuple[Any, ...]]:
    """The status of these items, or of all."""
    return [tuple(row) for row in await sql.rows(STATUS, [*items] or None)]


async def test_items_of_all_kinds_are_listed(sql: Session) -> None:
    """They are stored, of a live worker, or of a former one, ordered by name."""
    await add_item(sql, "b")
    await declare(sql, lease_s=0.0, d={"task": "t"})
    await sql.execute("update asyncq._workers set last_seen = last_seen - interval '1 s'")
    await sql.execute("insert into asyncq.known_crontabs values ('c', now())")
    worker = await declare(sql, tasks=("t",), a={"task": "x", "expression": "@daily", "job": {"queue": "q"}})

    assert [
        ("a", "static", "x", "@daily", None, [str(worker)]),
        ("b", "stored", "t", "* * * * *", None, [str(worker)]),
        ("c", "static", None, None, None, []),
    ] == await status(sql)
    assert ["b"] == [row[0] for row in await status(sql, "b", "nobody")]
    assert "{}" == await sql.value("select options::text from asyncq._cron_status('{a}')")


async def test_a_stored_item_that_a_worker_has_too_is_listed_as_shadowed(sql: Session) -> None:
    """An item runs as its workers declare it; of several workers the newest one decides."""
    await add_item(sql, "a")
    first = await declare(sql, a={"task": "x"})
    second = await declare(sql, a={"task": "y"})
    said = "a worker has an item of this identifier in its crontab: the stored one waits"

    assert [("a", "static", "y", None, said, [str(first), str(second)])] == await status(sql)


async def test_a_worker_that_adds_no_jobs_of_items_is_none_of_them(sql: Session) -> None:
    """`run_once` runs jobs and leaves."""
    await add_item(sql, "a")
    await sql.run("register_worker", 60.0, 1, 1, "h", ["t"], 0, None, [])

    assert [] == (await status(sql))[0][5]


async def test_a_paused_item_has_no_next_run(sql: Session) -> None:
    """Earlier reports do not count."""
    await add_item(sql, "a")
    await sql.execute("update asyncq.known_crontabs set next_run = now()")
    told = await sql.value("select next_run is not null from asyncq._cron_status()")
    await sql.rows("select asyncq.pause_cron_item('a')")

    assert (True, None) == (told, await sql.value("select next_run from asyncq._cron_status()"))


async def test_options_are_the_fields_without_a_column(sql: Session) -> None:
    """No field is listed twice."""
    await add_item(sql, "a", tz="Europe/Berlin", overlap="skip", queue="q", fill=60, payload={"x": 1})
    row = await sql.row("select options::text, overlap, tz, payload::text from asyncq._cron_status()")

    assert ({"queue": "q", "fill": 60}, "skip", "Europe/Berlin", {"x": 1}) == (
        json.loads(row[0]),
        row[1],
        row[2],
        json.loads(row[3]),
    )

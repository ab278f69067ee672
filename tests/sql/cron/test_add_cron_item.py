"""`add_cron_item` and `_add_cron_item`: a stored item is checked, and has no missed slots of an earlier one."""

import json

import pytest

from tests.support.cron_items import add_item, declare, known
from tests.support.session import Session


async def test_an_item_is_stored_with_all_given_fields(sql: Session) -> None:
    """SQL and Python store the same form, which workers read."""
    await add_item(
        sql, "a", "@daily", payload={"x": 1}, tz="Europe/Berlin", queue="q", flags=["f"], fill="2d", priority=None
    )
    stored = await sql.value("select definition::text from asyncq._cron_items")

    expected = {"task": "t", "expression": "@daily", "payload": {"x": 1}, "tz": "Europe/Berlin", "queue": "q"}
    assert expected | {"flags": ["f"], "fill": "2d"} == json.loads(stored)


async def test_the_status_of_the_item_is_returned(sql: Session) -> None:
    """Defaults are included. Workers add themselves and the next run later."""
    row = await add_item(sql)

    assert ("a", "stored", "t", "* * * * *", "extended", "UTC", "{}", "{}", "allow") == tuple(row)[:9]
    assert (None, None, None, None, []) == (
        row["paused_at"],
        row["last_run"],
        row["next_run"],
        row["problem"],
        row["workers"],
    )


async def test_an_item_needs_only_a_name_a_task_and_a_time(sql: Session) -> None:
    """All other fields have defaults."""
    assert "a" == await sql.value("select (asyncq.add_cron_item('a', 't', '@daily')).identifier")


async def test_missing_and_unknown_arguments_are_refused(sql: Session) -> None:
    """The error has the argument's name."""
    for call, column, said in (
        ("asyncq.add_cron_item('a', 't', null)", "expression", "expression is missing"),
        ("asyncq.add_cron_item('a', null, '@daily')", "task", "task is missing"),
        ("asyncq.add_cron_item(null, 't', '@daily')", "identifier", "identifier must not be null"),
        (
            """asyncq.add_cron_item('a', 't', '@daily', options := '{"x": 1}')""",
            "options",
            "options have no member 'x'; there are",
        ),
        (
            "asyncq.add_cron_item('a', 't', '@daily', options := '[]')",
            "options",
            "options must be an object, got array",
        ),
        (
            "asyncq.add_cron_item('a', 't', '@daily', '[1]')",
            "payload",
            "payload must be of the JSON type object, got array",
        ),
    ):
        error = await sql.refusal(f"select {call}")
        assert ("22023", column) == (error.sqlstate, error.column_name)
        assert str(error).startswith(said)


@pytest.mark.parametrize("options", ['{"task": "u"}', '{"expression": null}', '{"payload": {}}'])
async def test_an_argument_is_no_option(sql: Session, options: str) -> None:
    """It would silently override the argument."""
    error = await sql.refusal("select asyncq.add_cron_item('a', 't', '@daily', '{}', $1::text::jsonb)", options)
    (name,) = json.loads(options)

    assert ("22023", "options") == (error.sqlstate, error.column_name)
    assert f"options have no member '{name}': it is an argument of its own" == str(error)


async def test_an_identifier_that_is_taken_is_refused(sql: Session) -> None:
    """It belongs to a stored item, or to the crontab of a live worker."""
    await add_item(sql, "a")
    await declare(sql, b={"task": "t"})

    again = await sql.refusal("select asyncq.add_cron_item('a', 't', '@daily')")
    static = await sql.refusal("select asyncq.add_cron_item('b', 't', '@daily')")

    assert ("GWBCX", "there is a stored item 'a' already; it can be changed") == (again.sqlstate, str(again))
    assert ("GWBCS", "the item 'b' is in the crontab of a worker; choose another identifier") == (
        static.sqlstate,
        str(static),
    )


ADD = """select asyncq._add_cron_item($1, '{"task": "t", "expression": "@daily"}', $2::text::jsonb)"""


async def test_an_item_is_known_from_now_on(sql: Session) -> None:
    """Nothing that was due before is made up for."""
    await sql.rows(ADD, "a", '{"queue": "q"}')
    row = await known(sql)

    assert row["known_since"] <= row["not_before"]
    assert (None, None, None) == (row["last_execution"], row["paused_at"], row["next_run"])
    assert '{"queue": "q"}' == await sql.value("select job::text from asyncq._cron_items")


async def test_the_history_of_an_earlier_item_is_not_inherited(sql: Session) -> None:
    """An earlier static item may have been paused. Only its last slot is kept, so that no slot becomes two jobs."""
    await sql.execute(
        "insert into asyncq.known_crontabs values ('a', '2020-01-01 00:00Z', '2021-01-01 00:00Z', null, now())"
    )
    await sql.rows(ADD, "a", None)
    row = await known(sql)

    assert (2021, None) == (row["last_execution"].year, row["paused_at"])
    assert row["known_since"].year > 2021


async def test_an_item_of_a_dead_worker_prevents_nothing(sql: Session) -> None:
    """Nobody adds slots of its item any more."""
    await declare(sql, lease_s=0.0, a={"task": "t"})
    await sql.execute("update asyncq._workers set last_seen = last_seen - interval '1 s'")
    await sql.rows(ADD, "a", None)

    assert 1 == await sql.value("select count(*) from asyncq._cron_items")

"""`change_cron_item` and `_change_cron_item`: one definition replaces another, if that is still the stored one."""

import json

from tests.support.cron_items import add_item, declare, known, revision
from tests.support.session import Session


async def test_members_are_changed_and_null_gives_the_default_back(sql: Session) -> None:
    """The other members stay."""
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


async def test_a_change_to_an_invalid_item_is_refused(sql: Session) -> None:
    """The rules are those of a new item."""
    await add_item(sql)
    error = await sql.refusal("""select asyncq.change_cron_item('a', '{"expression": null}')""")

    assert ("22023", "expression is missing") == (error.sqlstate, str(error))


CHANGE = "select asyncq._change_cron_item('a', $1::text::jsonb, null, $2)"


async def test_a_change_begins_at_the_next_slot_but_keeps_the_history(sql: Session) -> None:
    """The new expression does not add slots of the past."""
    await add_item(sql)
    await sql.execute("""
        update asyncq.known_crontabs
        set last_execution = '2021-01-01 00:00Z', paused_at = now(), next_run = now(),
          not_before = '2020-01-01 00:00Z'""")
    before = await revision(sql)
    await sql.rows(CHANGE, '{"expression": "@daily"}', None)
    row = await known(sql)

    assert (2021, True, None) == (row["last_execution"].year, row["paused_at"] is not None, row["next_run"])
    assert row["not_before"].year > 2021
    assert before != await revision(sql)


async def test_a_change_that_changes_nothing_leaves_it_as_it_is(sql: Session) -> None:
    """A deployment may say the same each time: slots of this very moment are not lost."""
    await add_item(sql)
    before = (await known(sql))["not_before"]

    assert await sql.value(CHANGE, '{"expression": "* * * * *", "tz": null}', None)
    assert before == (await known(sql))["not_before"]


async def test_an_item_that_was_changed_meanwhile_is_left_alone(sql: Session) -> None:
    """The caller has to read it again."""
    await add_item(sql)
    old = await revision(sql)
    await sql.rows(CHANGE, '{"tz": "Europe/Berlin"}', old)

    assert False is await sql.value(CHANGE, '{"expression": "@daily"}', old)
    assert "* * * * *" == await sql.value("select definition ->> 'expression' from asyncq._cron_items")


async def test_the_problem_and_the_job_of_the_old_definition_are_deleted(sql: Session) -> None:
    """They do not apply to the new definition."""
    await add_item(sql)
    await sql.execute("""update asyncq._cron_items set problem = 'bad', job = '{"queue": "q"}'""")
    await sql.rows(CHANGE, '{"expression": "@daily"}', None)

    assert (None, None) == tuple(await sql.row("select problem, job from asyncq._cron_items"))


async def test_an_item_that_is_not_stored_cannot_be_changed(sql: Session) -> None:
    """One of a crontab is changed there; one that is not there is not."""
    nobody = await sql.refusal(CHANGE, "{}", None)
    await declare(sql, a={"task": "t"})
    static = await sql.refusal(CHANGE, "{}", None)

    assert ("GWBCN", "GWBCS") == (nobody.sqlstate, static.sqlstate)

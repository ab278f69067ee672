"""`_add_cron_item`: a stored item is a new one, whatever was known of its name."""

from tests.support.cron_items import declare, known
from tests.support.session import Session

ADD = """select asyncq._add_cron_item($1, '{"task": "t", "expression": "@daily"}', $2::text::jsonb)"""


async def test_an_item_is_known_from_now_on(sql: Session) -> None:
    """Nothing that was due before is made up for."""
    await sql.rows(ADD, "a", '{"queue": "q"}')
    row = await known(sql)

    assert row["known_since"] <= row["not_before"]
    assert (None, None, None) == (row["last_execution"], row["paused_at"], row["next_run"])
    assert '{"queue": "q"}' == await sql.value("select job::text from asyncq._cron_items")


async def test_what_was_known_of_a_name_is_no_ones(sql: Session) -> None:
    """A static item of former times may have been paused; its last slot is kept, so that no slot becomes two jobs."""
    await sql.execute(
        "insert into asyncq.known_crontabs values ('a', '2020-01-01 00:00Z', '2021-01-01 00:00Z', null, now())"
    )
    await sql.rows(ADD, "a", None)
    row = await known(sql)

    assert (2021, None) == (row["last_execution"].year, row["paused_at"])
    assert row["known_since"].year > 2021


async def test_a_worker_that_is_dead_bars_nothing(sql: Session) -> None:
    """Its item is nobody's any more."""
    await declare(sql, lease_s=0.0, a={"task": "t"})
    await sql.execute("update asyncq._workers set last_seen = last_seen - interval '1 s'")
    await sql.rows(ADD, "a", None)

    assert 1 == await sql.value("select count(*) from asyncq._cron_items")

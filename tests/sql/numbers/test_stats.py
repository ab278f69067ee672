"""`_prune_stats`, `stats` and `depths`: numbers over time, and for how long they are kept."""

from tests.sql.numbers.test_write_stats import bucket, said, write
from tests.support.jobs import add
from tests.support.session import Session


async def test_old_minutes_become_quarters_and_then_hours_and_go_after_30_days(sql: Session) -> None:
    """Their sums stay, and a second prune changes nothing."""
    await add(sql, "a")
    for number in range(3):
        await write(sql, said("a", completed=10 + number, took=bucket(number, 1)))
        await sql.rows(
            """
            update asyncq._stats set at = date_trunc('hour', now()) - make_interval(hours => 5, mins => $1)
            where at > now() - interval '1 h'""",
            (1, 7, 20)[number],
        )
    await write(sql, said("a", completed=7))
    gone = [await sql.value("select asyncq._prune_stats($1)", most) for most in (2, 500, 500)]
    quarters = await kept(sql)
    await sql.rows("update asyncq._stats set at = at - interval '1 day' where span_s = 900")
    gone += [await sql.value("select asyncq._prune_stats(500)") for _ in range(2)]
    hours = await kept(sql)
    await sql.rows("update asyncq._stats set at = at - interval '31 days'")

    assert [2, 1, 0, 2, 0] == gone
    assert [(900, 12, [0, 0, 1]), (900, 21, [1, 1, 0]), (60, 7, [0, 0, 0])] == quarters
    assert [(3600, 33, [1, 1, 1]), (60, 7, [0, 0, 0])] == hours
    assert 0 < await sql.value("select asyncq._prune_stats(500)")
    assert 0 == await sql.value("select count(*) from asyncq._stats")


async def kept(sql: Session) -> list[tuple[object, ...]]:
    """The kept rows in the order of time."""
    return [tuple(row) for row in await sql.rows("select span_s, completed, took[1:3] from asyncq._stats order by at")]


async def test_of_old_depths_each_minute_stays(sql: Session) -> None:
    """After 30 days nothing."""
    for ago in ("1 h 10 s", "2 days", "2 days 10 s", "31 days"):
        await sql.rows(f"""
            insert into asyncq._depths
            select date_trunc('minute', now()) - interval '{ago}', null, 1, 1, 1, 1, 1, 1, 1, 1""")

    assert 2 == await sql.value("select asyncq._prune_stats(500)")
    assert 2 == await sql.value("select count(*) from asyncq._depths")

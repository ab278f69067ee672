"""`_period`: the same durations as in asyncq/domain/duration.py."""

from datetime import timedelta
from random import Random

from asyncq.domain.duration import parse_duration
from tests.support.session import Session
from tests.support.twins import differences, outcomes
from tests.support.vectors import BAD_PERIODS, PERIODS

PARTS = """(select extract(year from p) * 12 + extract(month from p) || ' ' || extract(day from p) || ' ' ||
    extract(hour from p) * 3600000000 + extract(minute from p) * 60000000 + extract(microseconds from p)::bigint
    from (select asyncq._period(a1) as p) as period)"""


def parts(period: str) -> str:
    """The result of Python."""
    try:
        return " ".join(map(str, parse_duration(period)))
    except ValueError:
        return "GWBUP unique.period"


async def test_a_period_is_months_days_and_microseconds(sql: Session) -> None:
    """The three parts that PostgreSQL keeps too."""
    expected = [" ".join(map(str, three)) for three in PERIODS.values()]

    assert [] == differences([*PERIODS], expected, await outcomes(sql, PARTS, [*PERIODS]))


async def test_an_invalid_or_too_long_duration_is_refused(sql: Session) -> None:
    """PostgreSQL's own parser accepts some of these, such as P-1D and PT."""
    actual = await outcomes(sql, "asyncq._period(a1)::text", BAD_PERIODS)

    assert [] == differences(BAD_PERIODS, ["GWBUP unique.period"] * len(BAD_PERIODS), actual)


async def test_no_period_is_null(sql: Session) -> None:
    """A policy without one has no end."""
    assert await sql.value("select asyncq._period(null)") is None


async def test_python_and_sql_read_the_same_parts(sql: Session) -> None:
    """A policy that was made in Python means the same to an add from SQL."""
    chance = Random()
    periods = [some_period(chance) for _ in range(3000)]

    assert [] == differences(periods, [*map(parts, periods)], await outcomes(sql, PARTS, periods))


async def test_a_day_has_24_hours_in_utc(sql: Session) -> None:
    """In New York the day on which the clocks go forward has 23 hours."""
    await sql.execute("set local timezone = 'America/New_York'")
    period = "asyncq._period('P1D')"
    start = "timestamptz '2024-03-09 20:00:00Z'"

    assert timedelta(hours=24) == await sql.value(
        f"select ((({start} at time zone 'UTC') + {period}) at time zone 'UTC') - {start}"
    )


def some_period(chance: Random) -> str:
    """A period in which any part may be missing; now and then too long, or none."""

    def part(unit: str, most: int) -> str:
        return f"{chance.randint(0, most)}{unit}" if chance.random() < 0.5 else ""

    fraction = f"{chance.randint(0, 99)}.{chance.randrange(10**9):09}"[: chance.randint(4, 12)] + "S"
    time = part("H", 900_000) + part("M", 10**6) + (fraction if chance.random() < 0.5 else "")
    return f"P{part('Y', 60)}{part('M', 700)}{part('W', 2000)}{part('D', 20_000)}" + (f"T{time}" if time else "")

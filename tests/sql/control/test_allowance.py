"""`_allowance`, `_cell`, `_spent`, `_allowed_at`: the starts of the last period, counted in ten cells."""

from datetime import UTC, datetime, timedelta
from random import Random

from tests.support.session import Session

PER_S = 10.0
RATE = 5
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
ASK = "select asyncq._allowance($1, $2, $3, $4, $5) as allowed, asyncq._allowed_at($2, $3, $4, $5) as again"
SPEND = "select asyncq._cell($1, $5) as cell, asyncq._spent($1, $2, $3, $4, $5) as cells"


async def test_without_a_rate_or_a_start_nothing_is_counted(sql: Session) -> None:
    """A partition of which nothing is known may start as many as the rate says."""
    rows = [tuple(await sql.row(ASK, rate, PER_S, None, None, BEGINNING)) for rate in (None, RATE)]

    assert [(None, None), (RATE, None)] == rows


async def test_starts_count_for_the_period_and_at_most_one_cell_longer(sql: Session) -> None:
    """In any period at most as many start as the rate says."""
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, BEGINNING)
    (_, again) = await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING)
    moments = [timedelta(seconds=seconds) for seconds in (0, 0.9, 9.9, 10.9, 11, 60)]
    allowed = [(await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING + later))["allowed"] for later in moments]

    assert [3, 3, 3, 3, 5, 5] == allowed
    assert BEGINNING + timedelta(seconds=11) == again


async def test_no_period_has_more_starts_than_the_rate_and_few_have_much_less(sql: Session) -> None:
    """A random caller starts as many as it may, whenever it asks."""
    chance, cell, cells, now = Random(1), None, None, BEGINNING
    starts: list[datetime] = []
    for _ in range(200):
        now += timedelta(seconds=chance.choice((0.01, 0.3, 1.0, 2.5)))
        allowed = (await sql.row(ASK, RATE, PER_S, cell, cells, now))["allowed"]
        assert 0 <= allowed <= RATE
        some = chance.randint(0, allowed)
        if some:
            starts += [now] * some
            cell, cells = await sql.row(SPEND, PER_S, cell, cells, some, now)
            assert 11 == len(cells)
    busiest = max(sum(start <= other < start + timedelta(seconds=PER_S) for other in starts) for start in starts)

    assert RATE == busiest

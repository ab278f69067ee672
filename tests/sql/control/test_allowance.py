"""`_allowance`, `_cell`, `_spent`, `_allowed_at`: the starts of the last period, counted in ten cells."""

import copy
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from asyncq.store.arrays import array_text
from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add
from tests.support.session import Session

PER_S = 10.0
LATE_S = 0.1
"""So much later than its claim a handler may start. The period is longer by as much."""
RATE = 5
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
ASK = "select asyncq._allowance($1, $2, $3, $4, $5) as allowed, asyncq._allowed_at($2, $3, $4, $5) as again"
SPEND = "select asyncq._newest_cell($1, $2, $5) as cell, asyncq._spent($1, $2, $3, $4, $5) as cells"


async def test_without_a_rate_or_a_start_nothing_is_counted(sql: Session) -> None:
    """A partition of which nothing is known may start as many as the rate says."""
    rows = [tuple(await sql.row(ASK, rate, PER_S, None, None, BEGINNING)) for rate in (None, RATE)]

    assert [(None, None), (RATE, None)] == rows


async def test_starts_count_for_the_period_and_at_most_one_cell_longer(sql: Session) -> None:
    """In any period at most as many start as the rate says, also if each starts 100 ms after it was counted."""
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, BEGINNING)
    (_, again) = await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING)
    moments = [timedelta(seconds=seconds) for seconds in (0, 0.9, 9.9, 10.09, 11.12, 60)]
    allowed = [(await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING + later))["allowed"] for later in moments]

    assert [3, 3, 3, 3, 5, 5] == allowed
    assert timedelta(seconds=10.1) < again - BEGINNING <= timedelta(seconds=11.11)


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
    busiest = max(
        sum(start <= other < start + timedelta(seconds=PER_S + LATE_S) for other in starts) for start in starts
    )

    assert RATE == busiest


async def test_a_fetch_that_began_before_another_one_makes_no_starts_older(sql: Session) -> None:
    """It locked the partition after the other one. All starts count for a whole period after the later of both."""
    cell: Any = None
    cells: Any = None
    for moment in (BEGINNING, BEGINNING - timedelta(seconds=1.5)):
        cell, cells = await sql.row(SPEND, PER_S, cell, cells, 1, moment)
    moments = [timedelta(seconds=seconds) for seconds in (0, 9.9, 10.09, 11.12)]
    allowed = [(await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING + later))["allowed"] for later in moments]

    assert [3, 3, 3, 5] == allowed


async def test_numbers_of_cells_a_period_ahead_do_not_count(sql: Session) -> None:
    """They were written for a longer period, or before the clock was set back."""
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, BEGINNING + timedelta(seconds=11.2))
    cell, cells = await sql.row(SPEND, PER_S, cell, cells, 1, BEGINNING)

    assert 4 == (await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING))["allowed"]


RATED = {
    "a key": {"t": {"rate": 5, "per_s": 60, "by": ["k"]}},
    "a total": {"t": {"total_rate": 5, "total_per_s": 60}},
    "a queue": {"t": {}, "queues": {"q": 1}},
    "another task": {"t": {"at_once": 5, "by": ["k"]}, "other": {"total_rate": 5, "total_per_s": 60}},
}


@pytest.mark.parametrize("limits", RATED.values(), ids=RATED)
async def test_a_fetch_says_whether_a_rate_counts_its_claims(sql: Session, limits: Any) -> None:
    """A worker returns such claims if they do not start soon."""
    await declare(sql, **copy.deepcopy(limits))
    if "queues" in limits:
        await sql.execute("select asyncq.set_limit('q', rate => 5, per_s => 60)")
    await add(sql, payload='{"k": 1}', queue="q" if "queues" in limits else None)
    ids = array_text(await sql.values("select id from asyncq._tasks"))
    rows = [await sql.run("fetch_partitions", 1, token, 10, ids, *[None] * 6, 100, "{}", None) for token in (1, 2)]

    assert [(limits is not RATED["another task"], 1), (False, 0)] == [
        (answer[0]["is_rated"], sum(row["id"] is not None for row in answer)) for answer in rows
    ]

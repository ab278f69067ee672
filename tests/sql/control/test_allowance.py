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
LATE_S = 0.5
"""So much later than its claim a handler may start, a twentieth of the period. That is longer by as much."""
RATE = 5
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
ASK = "select asyncq._allowance($1, $2, $3, $4, $5) as allowed, asyncq._allowed_at($2, $3, $4, $5) as again"
SPEND = "select asyncq._newest_cell($1, $2, $5) as cell, asyncq._spent($1, $2, $3, $4, $5) as cells"


async def test_without_a_rate_or_a_start_nothing_is_counted(sql: Session) -> None:
    """A partition of which nothing is known may start as many as the rate says."""
    rows = [tuple(await sql.row(ASK, rate, PER_S, None, None, BEGINNING)) for rate in (None, RATE)]

    assert [(None, None), (RATE, None)] == rows


async def test_starts_count_for_the_period_and_at_most_one_cell_longer(sql: Session) -> None:
    """In any period at most as many start as the rate says, also if each starts 0.5 s after it was counted."""
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, BEGINNING)
    (_, again) = await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING)
    moments = [timedelta(seconds=seconds) for seconds in (0, 0.9, 9.9, 10.49, 11.56, 60)]
    allowed = [(await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING + later))["allowed"] for later in moments]

    assert [3, 3, 3, 3, 5, 5] == allowed
    assert timedelta(seconds=10.5) < again - BEGINNING <= timedelta(seconds=11.55)


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
    moments = [timedelta(seconds=seconds) for seconds in (0, 9.9, 10.49, 11.56)]
    allowed = [(await sql.row(ASK, RATE, PER_S, cell, cells, BEGINNING + later))["allowed"] for later in moments]

    assert [3, 3, 3, 5] == allowed


async def test_numbers_of_cells_a_period_ahead_of_the_clock_do_not_count(sql: Session) -> None:
    """They were written for a longer period, or before the clock was set back."""
    moment = await sql.value("select asyncq.clock()")
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, moment + timedelta(seconds=30))
    before = await sql.row(ASK, RATE, PER_S, cell, cells, moment)
    cell, cells = await sql.row(SPEND, PER_S, cell, cells, 1, moment)

    assert (RATE, None, 4) == (*before, (await sql.row(ASK, RATE, PER_S, cell, cells, moment))["allowed"])


async def test_starts_that_the_clock_has_reached_count_for_a_fetch_of_long_ago(sql: Session) -> None:
    """Others have started jobs since it began, for more than a period. Its own starts count as new ones."""
    now = await sql.value("select asyncq.clock()")
    long_ago = now - timedelta(seconds=60)
    cell, cells = await sql.row(SPEND, PER_S, None, None, 2, now)
    allowed = (await sql.row(ASK, RATE, PER_S, cell, cells, long_ago))["allowed"]
    cell, cells = await sql.row(SPEND, PER_S, cell, cells, allowed, long_ago)
    moments = [timedelta(seconds=seconds) for seconds in (-60, 0, 9.9, 10.49, 11.56)]
    left = [(await sql.row(ASK, RATE, PER_S, cell, cells, now + later))["allowed"] for later in moments]

    assert (3, [0, 0, 0, 0, 5]) == (allowed, left)


@pytest.mark.parametrize(
    ("per_s", "within_s"), [(None, None), (0.1, 0.1), (2, 0.1), (10, 0.5), (100, 5.0), (86_400, 5.0)]
)
async def test_the_time_to_start_is_a_twentieth_of_the_period_within_bounds(
    sql: Session, per_s: float | None, within_s: float | None
) -> None:
    """A fetch of many partitions takes longer than 0.1 s."""
    assert within_s == await sql.value("select asyncq._start_within($1)", per_s)


async def test_the_shortest_period_of_the_claims_of_a_fetch_decides(sql: Session) -> None:
    """That of a total counts too."""
    await declare(sql, t={"rate": 5, "per_s": 60, "by": ["k"], "total_rate": 5, "total_per_s": 20})
    await add(sql, payload='{"k": 1}')
    ids = array_text(await sql.values("select id from asyncq._tasks"))
    rows = await sql.run("fetch_partitions", 1, 1, 10, ids, *[None] * 6, 100, "{}", None)

    assert 1.0 == rows[0]["start_within_s"]


RATED = {
    "a key": {"t": {"rate": 5, "per_s": 60, "by": ["k"]}},
    "a total": {"t": {"total_rate": 5, "total_per_s": 60}},
    "a queue": {"t": {}, "queues": {"q": 1}},
    "another task": {"t": {"at_once": 5, "by": ["k"]}, "other": {"total_rate": 5, "total_per_s": 60}},
}


@pytest.mark.parametrize("limits", RATED.values(), ids=RATED)
async def test_a_fetch_says_how_soon_claims_have_to_start_that_a_rate_counts(sql: Session, limits: Any) -> None:
    """A worker returns such claims if they do not start soon."""
    await declare(sql, **copy.deepcopy(limits))
    if "queues" in limits:
        await sql.execute("select asyncq.set_limit('q', rate => 5, per_s => 60)")
    await add(sql, payload='{"k": 1}', queue="q" if "queues" in limits else None)
    ids = array_text(await sql.values("select id from asyncq._tasks"))
    rows = [await sql.run("fetch_partitions", 1, token, 10, ids, *[None] * 6, 100, "{}", None) for token in (1, 2)]

    assert [(None if limits is RATED["another task"] else 3.0, 1), (None, 0)] == [
        (answer[0]["start_within_s"], sum(row["id"] is not None for row in answer)) for answer in rows
    ]

"""A rate whose time has changed: earlier starts are counted, and no partition waits for longer than that time."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.jobs import add, fetched
from tests.support.session import Session

RATES: dict[str, Any] = {
    "of each key": lambda per_s: ({"rate": 3, "per_s": per_s}, []),
    "of all jobs": lambda per_s: ({"total_rate": 3, "total_per_s": per_s}, []),
    "of a queue": lambda per_s: ({}, [{"name": "q", "at_once": 100, "rate": 3, "per_s": per_s}]),
}


async def declare(sql: Session, limit: dict[str, Any], queues: list[Any]) -> None:
    """Declare a limit of task `t`, and of queues."""
    declaration = {
        "limits": [{"name": "t", **limit}] if limit else [],
        "tasks": [{"identifier": "t", "limit": "t" if limit else None, "by": ["k"] if "rate" in limit else None}],
        "queues": queues,
    }
    await sql.run("declare_limits", json.dumps(declaration), "worker 1")


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize(("before_s", "after_s"), [(60, 600), (600, 60)], ids=["longer", "shorter"])
async def test_earlier_starts_count_from_the_change_on(sql: Session, rate: Any, before_s: int, after_s: int) -> None:
    """The cells of the old time have another length, and so other numbers: these may be far in the future."""
    await sql.rows("select asyncq._store_tasks('{t}')")
    await declare(sql, *rate(before_s))
    for _ in range(12):
        await add(sql, payload='{"k": 1}', queue=None if rate(1)[0] else "q")
    moment = await sql.value("select asyncq.now()")
    first = [len(await fetched(sql, now=moment)) for _ in range(2)]
    await declare(sql, *rate(after_s))
    then = [len(await fetched(sql, now=moment + timedelta(seconds=after_s * n))) for n in (0.01, 0.8, 1.5, 3, 4.5)]

    assert ([3, 0], [0, 0, 3, 3, 3]) == (first, then)


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
async def test_a_number_of_the_old_time_does_not_stop_a_partition(sql: Session, rate: Any) -> None:
    """A fetch with an older snapshot has written it after the change: its starts would count for years."""
    await sql.rows("select asyncq._store_tasks('{t}')")
    await declare(sql, *rate(600))
    for _ in range(6):
        await add(sql, payload='{"k": 1}', queue=None if rate(1)[0] else "q")
    moment = await sql.value("select asyncq.now()")
    first = await fetched(sql, now=moment)
    await sql.rows("update asyncq._partitions set cell = asyncq._cell(60, asyncq.now()) where cells is not null")
    await sql.rows("update asyncq._wakeups set at = asyncq.now() where task_id > 0")
    then = [len(await fetched(sql, now=moment + timedelta(seconds=second))) for second in (1, 2)]

    assert (3, [3, 0]) == (len(first), then)


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
async def test_a_fetch_that_began_earlier_makes_no_start_of_a_later_one_older(sql: Session, rate: Any) -> None:
    """It locks the partition after the later one has committed. All three count for a whole period."""
    await sql.rows("select asyncq._store_tasks('{t}')")
    await declare(sql, *rate(60))
    for _ in range(6):
        await add(sql, payload='{"k": 1}', queue=None if rate(1)[0] else "q")
    moment = await sql.value("select asyncq.now() + interval '1 hour'")
    first = [len(await fetched(sql, 2, now=moment)), len(await fetched(sql, now=moment - timedelta(seconds=15)))]
    then = [len(await fetched(sql, now=moment + timedelta(seconds=second))) for second in (50, 62.9, 69.4)]

    assert ([2, 1], [0, 0, 3]) == (first, then)


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
async def test_a_fetch_that_is_late_by_a_period_forgets_no_start(sql: Session, rate: Any) -> None:
    """Its moment is before the whole period of the starts that are counted. These still count for their period."""
    await sql.rows("select asyncq._store_tasks('{t}')")
    await declare(sql, *rate(60))
    moment = await sql.value("select asyncq.now()")
    for _ in range(12):
        await add(sql, payload='{"k": 1}', queue=None if rate(1)[0] else "q", run_at="now() - interval '300 s'")
    started = []
    for count, second in ((2, 0), (100, -80), (100, -80), (100, 1), (100, 62.9), (100, 69.4)):
        await sql.execute("update asyncq._wakeups set at = now() - interval '90 s' where task_id > 0")
        started.append(len(await fetched(sql, count, now=moment + timedelta(seconds=second))))

    assert [2, 1, 0, 0, 0, 3] == started

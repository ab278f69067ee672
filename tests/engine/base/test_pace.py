"""The pace of the handlers: steady where they are, and never guessed from a moment."""

import pytest

from asyncq.engine.base.pace import SHORTEST_S, WINDOW_S, Pace


async def test_a_burst_in_a_moment_is_no_pace() -> None:
    """Two runs that end within a millisecond would be two thousand a second, and fifty jobs fetched for two slots."""
    pace = Pace()
    pace.look(1000.0, 0)

    assert 2 / SHORTEST_S == pytest.approx(pace.look(1000.001, 2))


@pytest.mark.parametrize("rate", [10, 1_000, 100_000])
async def test_a_steady_pace_is_measured_as_it_is(rate: int) -> None:
    """It is right whenever it is read, once a window has passed."""
    pace = Pace()
    measured = [pace.look(step / 1000, rate * step // 1000) for step in range(1, 500)]

    assert [rate] * 399 == pytest.approx(measured[100:], rel=0.25, abs=1 / WINDOW_S)


async def test_a_pace_that_ends_is_forgotten_after_two_windows() -> None:
    """If all slots become busy for long, jobs that were fetched ahead would wait for them."""
    pace = Pace()
    for step in range(100):
        pace.look(step / 1000, step)
    for step in range(100, 100 + int(2000 * WINDOW_S) + 2):
        pace.look(step / 1000, 100)

    assert 0 == pace.look(0.1 + 2 * WINDOW_S + 0.003, 100)


async def test_jobs_that_ended_before_a_pause_do_not_count() -> None:
    """After an idle minute the first measurement has no pace."""
    pace = Pace()
    for step in range(100):
        pace.look(step / 1000, step * 100)

    assert 0 == pace.look(60.0, 9_999)

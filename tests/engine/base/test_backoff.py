"""How long the engine waits before it tries again."""

import pytest

from asyncq.engine.base.backoff import backoff_s


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 0.04), (2, 0.08), (3, 0.16), (5, 0.5), (1_000, 0.5), (10_000_000, 0.5)]
)
async def test_the_wait_doubles_up_to_its_limit_however_long_the_outage_lasts(failures: int, longest: float) -> None:
    """2 ** 1024 does not fit a float: without a limit, ten minutes without a database would end the worker."""
    waits = [backoff_s(failures, 0.04, 0.5) for _ in range(100)]

    assert all(longest / 2 <= wait <= longest for wait in waits)


async def test_no_two_workers_keep_step() -> None:
    """A fleet that comes back in one moment would be the next outage."""
    assert 90 < len({backoff_s(5, 0.04, 0.5) for _ in range(100)})

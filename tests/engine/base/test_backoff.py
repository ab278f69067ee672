"""How long the engine waits before it tries again."""

import pytest

from asyncq.engine.base.backoff import backoff_s


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 0.04), (2, 0.08), (3, 0.16), (5, 0.5), (1_000, 0.5), (10_000_000, 0.5)]
)
async def test_the_wait_doubles_up_to_its_limit_in_a_long_outage(failures: int, longest: float) -> None:
    """2 ** 1024 does not fit a float: without a limit, ten minutes without a database would end the worker."""
    waits = [backoff_s(failures, 0.04, 0.5) for _ in range(100)]

    assert all(longest / 2 <= wait <= longest for wait in waits)


async def test_no_two_workers_retry_in_step() -> None:
    """A fleet that reconnects at one moment would cause the next outage."""
    assert 90 < len({backoff_s(5, 0.04, 0.5) for _ in range(100)})

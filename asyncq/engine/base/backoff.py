"""How long the engine waits before it tries again what the database refused."""

from __future__ import annotations

import random


def backoff_s(failures: int, first_s: float, longest_s: float) -> float:
    """The wait after a number of failures in a row: doubled each time, with jitter, so that workers do not keep step.

    Args:
        failures: How many; at least 1, and for ever.
        first_s: The wait after the first one.
        longest_s: The longest wait.

    Returns:
        Seconds, between half and all of it.
    """
    doubled = min(failures - 1, 30)  # 2.0 ** 1024 is too large for a float: that would end a worker after a long outage
    return min(first_s * 2.0**doubled, longest_s) * random.uniform(0.5, 1.0)

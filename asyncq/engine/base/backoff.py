"""The wait before the engine repeats a statement that failed."""

import random


def backoff_s(failures: int, first_s: float, longest_s: float) -> float:
    """The wait after failures in a row: doubled each time, between half of it and all, so that workers spread."""
    doubled = min(failures - 1, 30)  # 2.0 ** 1024 is no float: the error would end a worker after a long outage
    return min(first_s * 2.0**doubled, longest_s) * random.uniform(0.5, 1.0)

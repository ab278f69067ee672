"""Limits the number of jobs of one fetch.

A fetch of queued jobs is slower, and no job of it runs until it ends. So its size is limited by its duration, but not
below the number that pays for the statement. Jobs without a queue cost a few microseconds each. If 500 of them take
long, the machine is busy, and smaller fetches would cost it more statements and commits.
"""

# The aim for the duration. The longest fetches take 10 ms more, when the server begins another file of its log.
AIM_S = 0.007
MOST = 500
# The duration of a smaller fetch is mostly round trip and commit, so it says little about the cost of a claim.
LEAST = 300


class FetchSize:
    """The largest number of jobs of one worker's next fetch."""

    def __init__(self) -> None:
        self.size = MOST

    def took(self, claims: int, duration_s: float, *, of_queues: bool) -> None:
        """Record the duration of a fetch, and whether any of its claims has a queue."""
        if not of_queues:
            self.size = MOST
        elif claims >= LEAST:
            fitting = int(claims * AIM_S / max(duration_s, 1e-6))
            self.size = max(min(fitting, MOST), LEAST)

"""How many jobs one fetch takes: of queues as many as it claims in a short time, as far as that is not too few to pay,
since while it lasts nobody runs them.

Jobs without a queue cost a few microseconds each: how long 500 of them take says how busy the machine is. To take fewer
then, with as many statements and commits more, makes it busier.
"""

from __future__ import annotations

AIM_S = 0.007  # the longest fetches take 10 ms more: at times the server begins another file of its log
MOST = 500  # of any kind
LEAST = 300  # what fewer claims took says little: the way there and back, and the commit; to take fewer makes it busier


class FetchSize:
    """The size of one worker's fetches.

    Attributes:
        size: How many the next one takes at most.
    """

    def __init__(self) -> None:
        self.size = MOST

    def took(self, claims: int, duration_s: float, *, of_queues: bool) -> None:
        """A fetch has brought so many claims in so many seconds; whether any was one of a queue."""
        if not of_queues:
            self.size = MOST
        elif claims >= LEAST:
            fitting = int(claims * AIM_S / max(duration_s, 1e-6))
            self.size = max(min(fitting, MOST), LEAST)

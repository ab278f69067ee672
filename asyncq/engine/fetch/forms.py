"""Which form a fetch has: whether it asks for jobs of named queues too.

To ask for them costs twice as much, and brings nothing while all queues that have jobs are busy. So for a moment after
a fetch that brought none of them, the next ones ask for jobs without a queue alone; for longer if it was expensive, but
not for longer than a look may be behind what was added. Whatever may free a queue here wakes the fetcher, and ends that
moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncq.domain.job import Claim
from asyncq.store.jobs import Form

MOMENT_S = 0.025  # at least
LONGEST_S = 0.1
SHARE = 20  # a moment lasts so many times as long as the fetch took


class Forms:
    """What one worker knows of the use of asking for jobs of queues. Times are seconds of any clock.

    Attributes:
        brings_queues: Whether the last fetch has brought jobs of queues.
    """

    def __init__(self) -> None:
        self._form: Form = "plain first"
        self._asked_at = float("-inf")
        self._plain_until = float("-inf")
        self.brings_queues = False

    def choose(self, now: float, *, woken: bool = False, is_dear: bool = False) -> Form:
        """The form of the next fetch.

        Args:
            now: When it is sent.
            woken: Whether something has happened that may have made a job runnable.
            is_dear: Whether it is expensive and will hardly bring anything: then it is not asked in two steps.
        """
        if is_dear or self.brings_queues:
            self._form = "all"
        elif not woken and now < self._plain_until:
            self._form = "plain"
        else:
            self._form = "plain first"
        self._asked_at = now
        return self._form

    def took(self, claims: Sequence[Claim], wanted: int, now: float) -> bool:
        """Note what the fetch has brought.

        Args:
            claims: What it has brought.
            wanted: How many it was to bring at most.
            now: When it was answered.

        Returns:
            Whether fewer claims than wanted are all that there is.
        """
        if self._form == "plain":
            if len(claims) < wanted:
                self._plain_until = float("-inf")
            return False
        self.brings_queues = any(claim.queue is not None for claim in claims)
        moment_s = max(MOMENT_S, min(SHARE * (now - self._asked_at), LONGEST_S))
        self._plain_until = float("-inf") if self.brings_queues else self._asked_at + moment_s
        return True

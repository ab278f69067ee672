"""Where looks for jobs begin: at the very start, or behind the last job that was taken.

Each look from the start walks over the dead entries of the index that an old snapshot keeps. So such looks come only as
often as they can be afforded: together they take at most a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncq.domain.job import Claim
from asyncq.store.jobs import START, Place

FROM_START_S = 0.1  # while jobs come, a look from the start at least this often: jobs may land behind the cursor
CHEAP_S = 0.01  # a look from the start that takes longer is not for every wake-up
SLOW_S = 0.05  # one that takes longer is slow, whatever it took at its best
SLOWER = 5  # and one that takes so many times as long as at its best, if it is not cheap
SHARE = 10  # looks from the start take at most one of so many parts of the time


class Looks:
    """What one worker knows of the price of its looks. Times are seconds of any clock.

    Attributes:
        full_at: When the next look from the start may begin, as far as its price goes.
        cost_s: What the last one took.
        usual_s: What one took at its best.
    """

    def __init__(self) -> None:
        self._cursor = START
        self._began_at = self.full_at = float("-inf")
        self._rests = False
        self.cost_s = 0.0
        self.usual_s = float("inf")

    def begin(self, now: float) -> Place:
        """Where the look that is sent now begins."""
        if self._cursor is START or (now >= self.full_at and (self._rests or now - self._began_at >= FROM_START_S)):
            self._began_at = now
            return START
        return self._cursor

    def took(self, claims: Sequence[Claim], wanted: int) -> None:
        """What a look has brought.

        Args:
            claims: In the order in which they are to run.
            wanted: How many it was to bring at most.
        """
        last = next((claim for claim in reversed(claims) if claim.queue is None), None)
        place = START if last is None else Place(*last.place)
        self._rests = len(claims) < wanted
        if self._rests:
            # It brought all that there was behind its beginning.
            self._cursor = max(self._cursor, place, key=_order)
        else:
            self._cursor = place

    def ended(self, now: float, after: Place) -> None:
        """The look has ended, with all that belongs to it."""
        if after is START:
            self.cost_s = now - self._began_at
            self.usual_s = min(self.usual_s, self.cost_s)
            self.full_at = now + (SHARE - 1) * self.cost_s
            if self._rests and self.cost_s <= CHEAP_S:
                self._cursor = START

    @property
    def is_slow(self) -> bool:
        """Whether the last look from the start took much longer than it would over a tidy table."""
        return self.cost_s > min(SLOW_S, max(CHEAP_S, SLOWER * self.usual_s))

    def may_be_full(self, now: float) -> bool:
        """Whether a look that begins now may begin at the start."""
        return self._cursor is START or now >= self.full_at


def _order(place: Place) -> tuple[object, ...]:
    return () if place is START else (place.priority, place.run_at, place.id)

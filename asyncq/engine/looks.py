"""Where looks for jobs begin: at the very start, or behind what was seen before.

A look from the start walks over the dead entries of the index that an old snapshot keeps, and over jobs that are not
for this worker: of tasks that it does not know, or with flags that it forbids. So such looks come only as often as they
can be afforded: together they take at most a tenth of the time, and a hundredth while nothing happens. Those between
begin behind the last job that was taken, and, once everything was seen, leave out what had been due before.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from asyncq.domain.job import Claim
from asyncq.store.jobs import START, Place

FROM_START_S = 0.1  # while jobs come, a look from the start at least this often: jobs may land behind the cursor
CHEAP_S = 0.01  # a look from the start that takes longer is not for every wake-up
SLOW_S = 0.05  # one that takes longer is slow, whatever it took at its best
SLOWER = 5  # and one that takes so many times as long as at its best, if it is not cheap
SHARE = 10  # looks from the start take at most one of so many parts of the time
IDLE_SHARE = 100  # the same while nothing asks for them
MARGIN_S = 10.0  # an add that commits so long after the start of its transaction is still found by the next look
NARROW_S = 0.5  # the same while a look that goes back as far is expensive, but for once in a while


class Looks:
    """What one worker knows of the price of its looks. Times are seconds of any clock.

    Attributes:
        full_at: When the next look from the start may begin, as far as its price goes, if something asks for it.
        cost_s: What the last one took.
        usual_s: What one took at its best.
    """

    def __init__(self) -> None:
        self._cursor = START
        self._began_at = self.full_at = float("-inf")
        self._rests = False
        self._idle_at = float("-inf")
        self._is_asked = True  # something has happened since the last look from the start
        self._based_at: float = float("-inf")  # when the last look began that had no cursor
        self._wide_at = float("-inf")  # when a look may go back by the whole margin again
        self._is_wide = self._puts_off = False
        self._seen_at: float = float("-inf")  # when the last look without a cursor began that was answered
        self._passed_at: float | None = None  # what was due then, and is for this worker, was taken
        self.cost_s = 0.0
        self.usual_s = float("inf")

    def begin(self, now: float, woken: bool = False) -> Place:
        """Where a look begins.

        Args:
            now: When it is sent.
            woken: Whether something has happened that may have made a job runnable.
        """
        if self._based_at != self._seen_at:
            # The last one failed, and saw nothing.
            self._based_at, self._is_wide = self._seen_at, False
        self._is_asked = self._is_asked or woken
        is_due = now >= self.due_at and (self._rests or now - self._began_at >= FROM_START_S)
        # What has just been added is found sooner by a look that leaves out the rest; the expensive one comes after it.
        self._puts_off = woken and is_due and self._passed_at is not None and not self._puts_off
        if self._may_begin_at_start or (is_due and not self._puts_off):
            self._began_at = self._based_at = now
            self._is_asked = False
            return START
        if self._passed_at is None:
            return self._cursor
        is_wide = now >= self._wide_at
        since_s = now - self._passed_at + (MARGIN_S if is_wide else NARROW_S)
        if self._rests or now - self._based_at >= FROM_START_S:
            self._based_at = now
            self._is_wide = is_wide
            return Place(since_s=since_s)
        return replace(self._cursor, since_s=since_s)

    @property
    def _may_begin_at_start(self) -> bool:
        return self._cursor is START and (self._passed_at is None or self.cost_s <= CHEAP_S)

    @property
    def due_at(self) -> float:
        """When the next look from the start begins."""
        return self.full_at if self._is_asked or not self._rests else self._idle_at

    def took(self, claims: Sequence[Claim], wanted: int) -> None:
        """What a look has brought.

        Args:
            claims: In the order in which they are to run.
            wanted: How many it was to bring at most.
        """
        last = next((claim for claim in reversed(claims) if claim.queue is None), None)
        place = START if last is None else Place(*last.place)
        self._rests = len(claims) < wanted
        self._seen_at = self._based_at
        self._is_asked = self._is_asked or bool(claims)
        if self._rests:
            # It brought all that there was behind its beginning.
            self._cursor = max(self._cursor, place, key=_order)
            self._passed_at = self._based_at
        else:
            self._cursor = place

    def ended(self, now: float, after: Place, cost_s: float) -> None:
        """The look has ended, with all that belongs to it, and took so long but for what had nothing to do with it."""
        if after is START:
            self.cost_s = cost_s
            self.usual_s = min(self.usual_s, cost_s)
            self.full_at = now + (SHARE - 1) * cost_s
            self._idle_at = now + (IDLE_SHARE - 1) * cost_s
            if self._rests and cost_s <= CHEAP_S:
                self._cursor, self._passed_at = START, None
        elif self._is_wide:
            self._is_wide = False
            self._wide_at = now + (SHARE - 1) * cost_s if cost_s > CHEAP_S else now

    @property
    def is_dear(self) -> bool:
        """Whether the last look from the start was not cheap, and the last one of all brought less than wanted."""
        return self._rests and self.cost_s > CHEAP_S

    @property
    def is_slow(self) -> bool:
        """Whether the last look from the start took much longer than it would over a tidy table."""
        return self.cost_s > min(SLOW_S, max(CHEAP_S, SLOWER * self.usual_s))

    def may_be_full(self, now: float) -> bool:
        """Whether a look that begins now may begin at the start."""
        return self._may_begin_at_start or now >= self.due_at


def _order(place: Place) -> tuple[object, ...]:
    return () if place is START else (place.priority, place.run_at, place.id)

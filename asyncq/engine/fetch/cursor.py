"""Decides where a fetch begins: at the start of the index, or after the jobs that earlier fetches saw.

A scan is the part of the index that one fetch reads. A scan from the start reads dead index entries that an old
snapshot keeps. It also reads jobs that this worker cannot run, by their task or their flags. So these scans take at
most a tenth of the time, and a hundredth while nothing happens. The scans between begin after the last claimed job.
Once all due jobs were seen, they also leave out jobs that were due before that.

The first true line of this table decides (`Seen.reach`). A scan is at its end if it claims fewer jobs than wanted:

    what is known                                                reach        leaves out
    nothing yet; or the last scan from the start reached its     everything   -
      end, and was cheap: the next one may be the same
    a scan from the start is due, and can be afforded            everything   -
    no scan has reached its end yet                              next         jobs before the last claimed one
    one has; so has the last one, or all scans for the last      recent       jobs due some time before that end
      `FROM_START_S` began after the last claimed job
    one has, and jobs come                                       next         both
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from asyncq.domain.job import Claim
from asyncq.store.claim import START, Place

# While jobs come, a scan from the start is made at least this often: jobs may be added before the cursor.
FROM_START_S = 0.1
# A longer scan from the start is not made for every wake-up.
CHEAP_S = 0.01
# The largest share of the time for scans from the start: one part of SHARE, of IDLE_SHARE while nothing asks for them.
SHARE = 10
IDLE_SHARE = 100
# An add that commits this long after the start of its transaction is still found by the next scan.
MARGIN_S = 10.0
# The margin of most scans while a scan with the full margin is expensive.
NARROW_S = 0.5


Reach = Literal["everything", "recent", "next"]
"""The jobs that a scan can find: all due ones, those that became due lately, or those after the last claimed one."""


class Scan(msgspec.Struct, frozen=True):
    """The scan of one fetch. If the fetch fails, it is dropped: it has seen nothing.

    Attributes:
        after: The position at which it begins; `START` if and only if it reaches everything.
        is_wide: Whether it uses the full margin, and so measures the cost of that.
    """

    reach: Reach
    after: Place
    sent_at: float
    is_wide: bool


class Seen(msgspec.Struct, frozen=True):
    """The jobs that the scans of one worker have seen, up to the last answered scan.

    Attributes:
        cursor: The last claimed job; `START` if none. Jobs of partitions are not scanned.
        all_at: All jobs for this worker that were due at this time were claimed; None if that is not known.
        based_at: The time of the last scan that did not begin after the cursor. Scans after the cursor continue it:
            when one reaches its end, all jobs that were due at that time were seen.
        is_at_end: Whether the last scan reached its end, and so claimed all jobs within its reach.
    """

    cursor: Place = START
    all_at: float | None = None
    based_at: float = float("-inf")
    is_at_end: bool = False

    def reach(self, now: float, *, is_cheap: bool, is_due: bool) -> Reach:
        """Decide by the table at the top; `is_cheap` and `is_due` are properties of a scan from the start."""
        if self.cursor is START and (self.all_at is None or is_cheap):
            return "everything"
        if is_due:
            return "everything"
        if self.all_at is None:
            return "next"
        if self.is_at_end or now - self.based_at >= FROM_START_S:
            return "recent"
        return "next"

    def position(self, reach: Reach, now: float, margin_s: float) -> Place:
        """Return where a scan begins: it also finds jobs that became due up to `margin_s` before `all_at`."""
        since_s = None if self.all_at is None else now - self.all_at + margin_s
        match reach:
            case "everything":
                return START
            case "recent":
                return Place(since_s=since_s)
            case "next":
                return replace(self.cursor, since_s=since_s)
            case _:
                assert_never(reach)

    def answered(self, scan: Scan, claims: Sequence[Claim], wanted: int) -> Seen:
        based_at = self.based_at if scan.reach == "next" else scan.sent_at
        place = Place(*claims[-1].place) if claims else START
        if len(claims) < wanted:
            # A job of higher priority does not move the cursor back: all jobs before the cursor were seen.
            return Seen(max(self.cursor, place, key=_order), all_at=based_at, based_at=based_at, is_at_end=True)
        return Seen(place, all_at=self.all_at, based_at=based_at)


class FetchCursor:
    """The scans of one worker: their results, their costs and their reasons. Times are seconds of any clock.

    Attributes:
        full_at: The earliest time of the next scan from the start, by its cost, if something asks for it.
        cost_s: The duration of the last scan from the start.
    """

    def __init__(self) -> None:
        self._seen = Seen()
        self.cost_s = 0.0
        self.full_at = float("-inf")
        self._idle_at = float("-inf")  # As `full_at`, if nothing asks for one.
        self._wide_at = float("-inf")  # The earliest time of a scan with the full margin.
        self._is_asked = True  # A scan from the start was asked for since the last one.
        self._began_at = float("-inf")  # The time of the last scan from the start.
        self._puts_off = False  # The last scan was sent in place of one from the start.

    def begin(self, now: float, woken: bool = False) -> Scan:
        """Begin the next scan; `woken` says whether a job may have become runnable."""
        self._is_asked = self._is_asked or woken
        is_due = now >= self.due_at and (self._seen.is_at_end or now - self._began_at >= FROM_START_S)
        # A short scan finds a job that was just added sooner; the expensive scan comes after it.
        self._puts_off = woken and is_due and self._seen.all_at is not None and not self._puts_off
        reach = self._seen.reach(now, is_cheap=self.is_cheap, is_due=is_due and not self._puts_off)
        if reach == "everything":
            self._began_at = now
            self._is_asked = False
        is_wide = now >= self._wide_at
        after = self._seen.position(reach, now, MARGIN_S if is_wide else NARROW_S)
        return Scan(reach, after, now, is_wide and reach == "recent")

    @property
    def is_cheap(self) -> bool:
        return self.cost_s <= CHEAP_S

    @property
    def due_at(self) -> float:
        """The time of the next scan from the start."""
        return self.full_at if self._is_asked or not self._seen.is_at_end else self._idle_at

    def drop(self, scan: Scan) -> None:
        """A scan is not made after all; a later one takes its place."""
        self._is_asked = self._is_asked or scan.reach == "everything"

    def took(self, scan: Scan, claims: Sequence[Claim], wanted: int) -> None:
        """Record the claims of a scan, in the order in which they run; `wanted` is their largest number."""
        self._seen = self._seen.answered(scan, claims, wanted)
        self._is_asked = self._is_asked or bool(claims)

    def ended(self, scan: Scan, now: float, cost_s: float) -> None:
        """Record the duration of a scan, without the time for other work."""
        if scan.reach == "everything":
            self.cost_s = cost_s
            self.full_at = now + (SHARE - 1) * cost_s
            self._idle_at = now + (IDLE_SHARE - 1) * cost_s
            if self._seen.is_at_end and self.is_cheap:
                # The next scan may be the same: forget the cursor.
                self._seen = replace(self._seen, cursor=START, all_at=None)
        elif scan.is_wide:
            self._wide_at = now + (SHARE - 1) * cost_s if cost_s > CHEAP_S else now

    def may_begin_at_start(self, now: float) -> bool:
        """Return whether the next scan may begin at the start; called after a scan that reached its end."""
        return self._seen.reach(now, is_cheap=self.is_cheap, is_due=now >= self.due_at) == "everything"


def _order(place: Place) -> tuple[object, ...]:
    return () if place is START else (place.priority, place.run_at, place.id)

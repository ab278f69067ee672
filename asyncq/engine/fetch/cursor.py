"""Where looks for jobs begin: at the very start, or behind what was seen before.

A look from the start walks over the dead entries of the index that an old snapshot keeps, and over jobs that are not
for this worker: of tasks that it does not know, or with flags that it forbids. So such looks come only as often as they
can be afforded: together they take at most a tenth of the time, and a hundredth while nothing happens. Those between
begin behind the last job that was taken, and, once everything was seen, leave out what had been due before.

How far the next look reaches is said by the first line that is true (`Seen.reach`). A look comes to its end if it
brings less than wanted:

    what is known                                                reach        leaves out
    nothing yet; or the last look from the start came to its     everything   -
      end, and was cheap: the next one may be like it
    a look from the start is due, and can be afforded            everything   -
    no look has come to its end yet                              next         what comes before the last job taken
    one has; so has the last one, or all looks for the last      recent       what was due some time before that end
      `FROM_START_S` began behind the last job taken
    one has, and jobs come                                       next         both
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from asyncq.domain.job import Claim
from asyncq.store.claim import START, Place

FROM_START_S = 0.1  # while jobs come, a look from the start at least this often: jobs may land behind the cursor
CHEAP_S = 0.01  # a look from the start that takes longer is not for every wake-up
SLOW_S = 0.05  # one that takes longer is slow, whatever it took at its best
SLOWER = 5  # and one that takes so many times as long as at its best, if it is not cheap
SHARE = 10  # looks from the start take at most one of so many parts of the time
IDLE_SHARE = 100  # the same while nothing asks for them
MARGIN_S = 10.0  # an add that commits so long after the start of its transaction is still found by the next look
NARROW_S = 0.5  # the same while a look that goes back as far is expensive, but for once in a while


Reach = Literal["everything", "recent", "next"]
"""What a look can find: all that is due (a look from the start), what became due lately, what follows the last job."""


class Scan(msgspec.Struct, frozen=True):
    """One look, from its sending to its end; one that fails is forgotten, and has seen nothing.

    Attributes:
        reach: What it can find.
        after: Where it begins, and what it leaves out; `START` if it reaches everything, and only then.
        sent_at: When it is sent.
        is_wide: Whether it goes back by the whole margin, and so says what that costs.
    """

    reach: Reach
    after: Place
    sent_at: float
    is_wide: bool


class Seen(msgspec.Struct, frozen=True):
    """What the looks of one worker have seen, up to the last one that was answered.

    Attributes:
        cursor: The last job without a queue that was taken; `START` if none.
        all_at: All that was due at this time, and is for this worker, was taken; None if that is not known.
        based_at: When the last look was sent that did not begin behind the cursor. The looks behind the cursor go on
            from there: when one comes to its end, all that was due then was seen.
        is_at_end: Whether the last look came to its end: it brought all that there was in its reach.
    """

    cursor: Place = START
    all_at: float | None = None
    based_at: float = float("-inf")
    is_at_end: bool = False

    def reach(self, now: float, *, is_cheap: bool, is_due: bool) -> Reach:
        """How far the next look reaches: the table at the top, line by line.

        Args:
            now: When it is sent.
            is_cheap: Whether a look from the start is cheap.
            is_due: Whether one is due.
        """
        if self.cursor is START and (self.all_at is None or is_cheap):
            return "everything"
        if is_due:
            return "everything"
        if self.all_at is None:
            return "next"
        if self.is_at_end or now - self.based_at >= FROM_START_S:
            return "recent"
        return "next"

    def place(self, reach: Reach, now: float, margin_s: float) -> Place:
        """Where a look of this reach begins.

        Args:
            reach: What it is to find.
            now: When it is sent.
            margin_s: How much longer ago than all was seen may what it finds have been due.
        """
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

    def answered(self, look: Scan, claims: Sequence[Claim], wanted: int) -> Seen:
        """What has been seen with the answer to a look."""
        based_at = self.based_at if look.reach == "next" else look.sent_at
        last = next((claim for claim in reversed(claims) if claim.queue is None), None)
        place = START if last is None else Place(*last.place)
        if len(claims) < wanted:
            # At the end. A job of higher priority does not take the cursor back: all before it had been looked through.
            return Seen(max(self.cursor, place, key=_order), all_at=based_at, based_at=based_at, is_at_end=True)
        return Seen(place, all_at=self.all_at, based_at=based_at)


class FetchCursor:
    """The looks of one worker: what they have seen, what they cost, what asks for them. Times are seconds of any clock.

    Attributes:
        full_at: When the next look from the start may begin, as far as its price goes, if something asks for it.
        cost_s: What the last one took.
        usual_s: What one took at its best.
    """

    def __init__(self) -> None:
        self._seen = Seen()
        # What they cost.
        self.cost_s = 0.0
        self.usual_s = float("inf")
        self.full_at = float("-inf")
        self._idle_at = float("-inf")  # the same if nothing asks for it
        self._wide_at = float("-inf")  # when a look may go back by the whole margin again
        # What asks for a look from the start.
        self._is_asked = True  # something has happened since the last one was sent
        self._began_at = float("-inf")  # when that was
        self._puts_off = False  # the last look was sent before one that was due

    def begin(self, now: float, woken: bool = False) -> Scan:
        """The next look.

        Args:
            now: When it is sent.
            woken: Whether something has happened that may have made a job runnable.
        """
        self._is_asked = self._is_asked or woken
        is_due = now >= self.due_at and (self._seen.is_at_end or now - self._began_at >= FROM_START_S)
        # What has just been added is found sooner by a look that leaves out the rest; the expensive one comes after it.
        self._puts_off = woken and is_due and self._seen.all_at is not None and not self._puts_off
        reach = self._seen.reach(now, is_cheap=self.is_cheap, is_due=is_due and not self._puts_off)
        if reach == "everything":
            self._began_at = now
            self._is_asked = False
        is_wide = now >= self._wide_at
        after = self._seen.place(reach, now, MARGIN_S if is_wide else NARROW_S)
        return Scan(reach, after, now, is_wide and reach == "recent")

    @property
    def is_cheap(self) -> bool:
        """Whether the last look from the start was cheap."""
        return self.cost_s <= CHEAP_S

    @property
    def due_at(self) -> float:
        """When the next look from the start begins."""
        return self.full_at if self._is_asked or not self._seen.is_at_end else self._idle_at

    def took(self, look: Scan, claims: Sequence[Claim], wanted: int) -> None:
        """What a look has brought.

        Args:
            look: The one that was begun last.
            claims: In the order in which they are to run.
            wanted: How many it was to bring at most.
        """
        self._seen = self._seen.answered(look, claims, wanted)
        self._is_asked = self._is_asked or bool(claims)

    def ended(self, look: Scan, now: float, cost_s: float) -> None:
        """The look has ended, with all that belongs to it, and took so long but for what had nothing to do with it."""
        if look.reach == "everything":
            self.cost_s = cost_s
            self.usual_s = min(self.usual_s, cost_s)
            self.full_at = now + (SHARE - 1) * cost_s
            self._idle_at = now + (IDLE_SHARE - 1) * cost_s
            if self._seen.is_at_end and self.is_cheap:
                # The next one may be like it: nothing need be remembered.
                self._seen = replace(self._seen, cursor=START, all_at=None)
        elif look.is_wide:
            self._wide_at = now + (SHARE - 1) * cost_s if cost_s > CHEAP_S else now

    @property
    def is_slow(self) -> bool:
        """Whether the last look from the start took much longer than it would over a tidy table."""
        return self.cost_s > min(SLOW_S, max(CHEAP_S, SLOWER * self.usual_s))

    def may_begin_at_start(self, now: float) -> bool:
        """Whether a look that begins now may begin at the start; asked after one that came to its end."""
        return self._seen.reach(now, is_cheap=self.is_cheap, is_due=now >= self.due_at) == "everything"


def _order(place: Place) -> tuple[object, ...]:
    return () if place is START else (place.priority, place.run_at, place.id)

"""Decides when a worker fetches next, and how many claims, by its free slots and the times of due jobs.

The fetcher records the result of each fetch here. Other parts report that jobs may have become due.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from asyncq.domain.job import Claim
from asyncq.domain.options import WorkerOptions
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.pace import Pace
from asyncq.engine.fetch.cursor import Reach
from asyncq.engine.fetch.inbox import Inbox
from asyncq.store.claim import START, Fetched, Place, next_due_s
from asyncq.store.database import ReconnectingConnection

# The size of a fetch, and that after a job of a partition. Such a fetch is slower, and no job of it runs until it ends.
MOST = 500
MOST_OF_PARTITIONS = 300
LEAST_OF_RATES = 10
# The worker fetches jobs for this much time ahead of free slots.
AHEAD_S = 0.025
# And for the time that a fetch takes, at most this: a claim that waits for too long goes back.
LONGEST_FETCH_S = 0.05
# For this long after a check for due jobs `claim_next` needs no other check.
TURN_S = 0.025
# For this long after a fetch it needs no other fetch; a check does not see jobs that were returned with their old time.
LONGEST_TURN_S = 0.25

Left = Literal["more", "unseen", "nothing"]
"""The jobs that the last fetch left, see `left_by`."""


class Schedule:
    """The schedule of the fetches of one worker.

    `finished` counts ended runs, for the pace of the handlers. `following` counts ended jobs of partitions that are
    not settled: the next jobs may follow them.

    Attributes:
        is_woken: Whether jobs may have become due since the last fetch began.
        follows: Whether `ClaimNext` was answered since then.
        most_of_partitions: How many claims a fetch of partitions may want.
    """

    def __init__(
        self,
        inbox: Inbox,
        options: WorkerOptions,
        *,
        may_fetch: Callable[[], bool],
        finished: Callable[[], int],
        following: Callable[[], int],
    ) -> None:
        self._inbox = inbox
        self._options = options
        self._finished = finished
        self._unsettled = following
        self.may_fetch = may_fetch
        self.is_woken = True
        self.follows = False
        self.most_of_partitions = MOST
        self.left: Left = "more"
        self._after = START
        self._look_at = 0.0
        self._sent_at = self._looked_at = float("-inf")
        self._took_s = 0.0
        self._most = MOST
        self._pace = Pace()

    # What other parts report

    def wake(self) -> None:
        """Something may have become due: look for it now."""
        self.is_woken = True
        self._inbox.changed.set()

    def wake_in(self, delay_s: float) -> None:
        """Something becomes due after a delay: look for it then."""
        self._look_at = min(self._look_at, loop_time() + delay_s)
        self._inbox.changed.set()

    def followed(self) -> None:
        """A statement of `ClaimNext` was answered."""
        self.follows = True
        self._inbox.changed.set()

    async def peek(self, line: ReconnectingConnection) -> None:
        """If the last look was a while ago, ask whether jobs wait for the slots of partitions that go on.

        It asks only for jobs that have become due since the last fetch, if that has left nothing. If none has, there
        is room for a while again, at a tenth of the price of a fetch, and without leaving the partitions.
        """
        now = loop_time()
        if now - self._looked_at <= TURN_S or not self._may_go_on:
            return
        due_s = await next_due_s(line, self._looked_at, self._after)
        if due_s is not None:
            self.wake_in(due_s)
        if due_s is None or due_s > 0:
            self._looked_at = max(now, self._looked_at)

    # What the fetcher reports

    def begin(self) -> bool:
        """A fetch begins; returns whether something may have become due since the last one."""
        # Cleared before the fetch: a notification or a retry during it asks for another one.
        was_woken, self.is_woken = self.is_woken, False
        self._look_at = float("inf")
        self.left = "more"
        self.follows = False
        self._sent_at = self._looked_at = loop_time()
        return was_woken

    def took(self, claims: Sequence[Claim], after: Place) -> None:
        """The fetch has brought these claims; it began at this place."""
        self._after = after
        self._took_s = loop_time() - self._sent_at
        self._most = MOST_OF_PARTITIONS if any(claim.partition is not None for claim in claims) else MOST

    def took_of_partitions(self, fetched: Fetched, wanted: int, took_s: float) -> None:
        """A fetch of partitions that wanted so many claims has brought these.

        If they have to start in time, the answer to the next one may take half of that time.
        """
        if fetched.start_within_s is not None:
            self.most_of_partitions = max(LEAST_OF_RATES, int(wanted * fetched.start_within_s / 2 / took_s))
        elif fetched.claims:
            self.most_of_partitions = MOST_OF_PARTITIONS

    def poll_later(self) -> None:
        """Nothing that was known to become due is left: look after the poll interval."""
        self._look_at = loop_time() + self._options.poll_s

    # What follows from that

    @property
    def is_idle(self) -> bool:
        """Whether the last fetch left nothing, and nothing has happened since."""
        return self.left == "nothing" and not self.is_woken

    @property
    def has_room(self) -> bool:
        """Whether a slot is free and fetching goes on."""
        return self._inbox.buffer.waiting > 0 and not self._inbox.is_closed

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether all slots are free, and nothing is known to be due."""
        is_free = self._inbox.buffer.waiting - self._following >= self._options.concurrency
        return is_free and not self._inbox.is_closed and self.is_idle and self.may_fetch()

    @property
    def wanted(self) -> int:
        return self._wanted(self._following)

    def is_time(self, wanted: int) -> bool:
        """Whether to fetch now, if so many are wanted."""
        if not wanted or not self.may_fetch():
            return False
        return self.is_woken or self.left == "more" or loop_time() >= self._look_at

    def pause_s(self, wanted: int) -> float:
        """How long to sleep if nothing happens: with a free slot, until it is time to look again."""
        has_slot = wanted and self.may_fetch()
        pause_s = max(self._look_at - loop_time(), 0.0) if has_slot else self._options.poll_s
        # If the end of a job that others may follow cannot be written, its slot is free then.
        return min(pause_s, LONGEST_TURN_S) if self._following else pause_s

    @property
    def room(self) -> int:
        """How many claims `ClaimNext` may ask for: none if the last fetch or peek was a while ago."""
        if self._inbox.is_closed or self.is_woken or not self.may_fetch() or loop_time() - self._looked_at > TURN_S:
            return 0
        return self._wanted(self._inbox.coming)

    @property
    def _may_go_on(self) -> bool:
        """Whether no other job is known to wait for the slots of partitions: a recent fetch has left nothing."""
        return self.is_idle and loop_time() - self._sent_at <= LONGEST_TURN_S

    @property
    def _following(self) -> int:
        """How many claims `ClaimNext` may bring, or is about to ask for: their slots are not free."""
        coming = self._inbox.coming
        return max(coming, self._unsettled()) if self._inbox.buffer.waiting and self._may_go_on else coming

    def _wanted(self, coming: int) -> int:
        """How many to fetch now, if so many claims may come without that."""
        buffer, pace = self._inbox.buffer, self._pace.look(loop_time(), self._finished())
        return wanted_now(buffer.waiting, len(buffer) + coming, pace, self._most, self._took_s)


def left_by(saw_all: bool, reach: Reach, *, may_begin_at_start: bool) -> Left:
    """Decide what a fetch has left.

        it saw all in   its reach    a look from the    has left   so the next fetch
        its reach                    start may begin
        no              -            -                  more       comes at once
        yes             everything   -                  nothing    waits for an event, the next due time or the poll
        yes             less         yes                more       comes at once, from the start
        yes             less         not yet            unseen     waits as above, but not longer than for that look

    Such a look may begin once it can be afforded.
    """
    if saw_all and reach == "everything":
        return "nothing"
    return "unseen" if saw_all and not may_begin_at_start else "more"


def wanted_now(waiting: int, buffered: int, pace: float, batch: int, takes_s: float) -> int:
    """Decide how many jobs to fetch now: one for each `waiting` slot, and those that start within `AHEAD_S` after it.

    With no free slot the answer is 0 while at least half of these are buffered. `pace` is in jobs a second. A fetch
    takes `takes_s`; as many more jobs as start meanwhile are needed, or the slots would be free during the next one. At
    most `batch` jobs are fetched, or wait for slots after the fetch.
    """
    ahead = min(int(pace * AHEAD_S), batch)
    missing = waiting + ahead + int(pace * min(takes_s, LONGEST_FETCH_S)) - buffered
    if not waiting and missing * 2 < ahead:
        return 0
    return max(0, min(missing, batch))

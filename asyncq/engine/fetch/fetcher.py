"""When and how many to fetch. One loop; what it decides are the pure functions at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Literal

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import FetchFailed, JobsFetched
from asyncq.domain.job import Claim
from asyncq.domain.options import WorkerOptions
from asyncq.domain.outcome import words
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.flags import current_flags
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import HALF_GRACE_S, now_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.pace import Pace
from asyncq.engine.base.shield import Patience, shielded
from asyncq.engine.base.stopwatch import Stopwatch
from asyncq.engine.fetch.buffer import Buffer
from asyncq.engine.fetch.cursor import FetchCursor, Reach, Scan
from asyncq.engine.fetch.fetch_size import FetchSize
from asyncq.engine.fetch.handoff import Handoff
from asyncq.engine.fetch.oncall import OnCall
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.claim import START, Place, fetch_jobs, next_due_s, plan, poll
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.listen import Listening
from asyncq.store.workers import set_forbidden_flags

AHEAD_S = 0.025  # how much work, in time, is fetched ahead of free slots
TURN_S = 0.025  # for so long after a look the jobs of a queue may follow each other without another one
LONGEST_TURN_S = 0.25  # and for so long after a fetch: other looks do not see what comes back with its old time
STALE_S = 0.1  # a claim that has not started after this long goes back
FETCH_DEADLINE_S = 5.0  # at first; doubled, up to the next line, while no answer comes
LONGEST_DEADLINE_S = 60.0
FIRST_RETRY_S = 0.04
SLOWEST_RETRY_S = 0.5

Left = Literal["more", "unseen", "nothing"]
"""What the last fetch has left, see `left_by`."""


class Fetcher:
    """The one reader of jobs of a worker.

    Args:
        line: Its connection.
        identity: Who claims.
        options: How many, how often.
        observers: Told of fetches.
        finished: How many runs have ended so far: the pace of the handlers.

    Attributes:
        buffer: Where the claims go.
        give_back: Takes claims that are returned.
        admit: Lets claims that were just fetched pass, or not.
        is_proven: Waits for a beat before the claims of a fetch whose answer was late may start.
        is_late: Whether a rescue may have taken a claim that was made at this time, by the server's clock.
        may_fetch: Whether this worker may take jobs now.
        follows: Whether `ClaimNext` has brought claims since the last fetch.
        following: How many jobs of queues have ended and are not settled yet: others may follow them.
        expected: The tokens of the claims whose answer is awaited.
        cursor: Where fetches begin, and what those from the start cost.
        on_call: Sees to it that somebody hears of adds while this worker rests.
        lost: Claims whose answer was lost.
        handoff: Lets adds claim a job for this worker while it is idle.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        options: WorkerOptions,
        observers: Observers,
        finished: Callable[[], int],
    ) -> None:
        self._line = line
        self._identity = identity
        self._options = options
        self._observers = observers
        self._finished = finished
        self.give_back: Callable[[Collection[Claim], str, int], None] = _nowhere
        self.admit: Callable[[list[Claim]], list[Claim]] = list
        self.is_proven: Callable[[], Awaitable[bool]] = _at_once
        self.is_late: Callable[[float], bool] = _never
        self.may_fetch: Callable[[], bool] = _always
        self.following: Callable[[], int] = _none
        self.follows = False
        self.expected: set[int] = set()
        self._stir = asyncio.Event()
        # With the buffer half empty it is time to think of the next fetch.
        self.buffer = Buffer(self._stir.set)
        self._woken = True
        self._stopping = False
        self._scope = anyio.CancelScope()
        self.lost = UnconfirmedFetches(line, observers)
        self.handoff = Handoff(line, identity, observers, self.lost, self.expected)
        self.handoff.is_idle, self.handoff.receive, self.handoff.wake = (
            self._has_nothing_to_do,
            self._take_over,
            self.wake,
        )
        self.handoff.may_take = self._may_take
        self._look_at = 0.0
        self.cursor = FetchCursor()
        self.on_call = OnCall(self.wake, self.wake_in)
        self._left: Left = "more"
        self._pace = Pace()
        self._patience = Patience(FETCH_DEADLINE_S, LONGEST_DEADLINE_S)
        self._told_flags: tuple[int, list[str] | None] = (0, None)
        self._sent_at = self._looked_at = float("-inf")
        self._after = START
        self._asked = self._promised = 0  # claims that a fetch, and `ClaimNext`, may bring
        self._took_s = 0.0
        self._batch = FetchSize()

    def wake(self) -> None:
        """Something may have become due: look for it now."""
        self._woken = True
        self._stir.set()

    def wake_in(self, delay_s: float) -> None:
        """Something becomes due after a delay: look for it then."""
        self._look_at = min(self._look_at, _now() + delay_s)
        self._stir.set()

    def open(self, start_soon: Callable[..., object]) -> None:
        """Allow statements on call and for hand-offs from now on; `start_soon` starts tasks."""
        self.on_call.open(start_soon)
        self.handoff.open(start_soon)

    def connected(self, connection: Listening) -> None:
        """The worker listens."""
        self.handoff.connected(connection)
        self.on_call.connected(connection)

    def disconnected(self) -> None:
        """It does not listen."""
        self.handoff.lost()
        self.on_call.lost()

    def let_go(self, reason: str) -> None:
        """Give back the claims that have not started."""
        if claims := self.buffer.drain():
            self.give_back(claims, reason, self._identity.worker_id)

    def stop(self) -> None:
        """Fetch no more; a fetch that was sent is waited for, a function of the user's is not."""
        self._stopping = True
        self._scope.cancel()

    @property
    def worker_id(self) -> int:
        """The id of the worker, under which it claims jobs; 0 while it has none."""
        return self._identity.worker_id

    @property
    def is_idle(self) -> bool:
        """Whether the last fetch left nothing, and nothing has happened since."""
        return self._left == "nothing" and not self._woken

    @property
    def has_room(self) -> bool:
        """Whether a slot is free and fetching goes on."""
        return self.buffer.waiting > 0 and not self._stopping

    async def prepare(self) -> None:
        """Let the server plan what is fetched with, before anybody waits for it."""
        await plan(self._line)

    async def run(self, progress: Callable[[], None], give_up_s: float | None = None) -> None:
        """Fetch until stopped.

        Args:
            progress: Called after each fetch.
            give_up_s: For how long failing fetches are tried again; for ever by default.

        Raises:
            AsyncqError: Fetching failed for longer than that.
        """
        with self._scope:
            await self._until_stopped(progress, give_up_s)
        await self.on_call.stop()
        await self.handoff.stop()

    async def _until_stopped(self, progress: Callable[[], None], give_up_s: float | None) -> None:
        self._pace.look(_now(), self._finished())
        well_at = _now()
        outage = Outage("fetching", self._observers.emit)
        while not self._stopping:
            self._return_stale()
            wanted = self._wanted(self._following())
            if not (self._is_time(wanted) or self.lost.is_time):
                await self._rest(wanted)
                continue
            try:
                if self.lost.is_time:
                    await self.lost.give_back()  # With no free slot too: nobody else can.
                if self._is_time(wanted) and not await self._sees_nothing():
                    await self.fetch(wanted)
                well_at = _now()
                outage.over()
                self._patience.answered()
            except (AsyncqError, TimeoutError) as error:
                failures = outage.failed()
                if isinstance(error, TimeoutError):
                    self._patience.lost()
                if give_up_s is not None and _now() - well_at > give_up_s:
                    raise
                await self._back_off(error, failures)
            progress()

    async def fetch(self, wanted: int) -> int:
        """Claim up to so many jobs and hand them over.

        Returns:
            How many were claimed.

        Raises:
            AsyncqError: It failed; claims whose answer was lost are noted, and given back later.
        """
        forbidden = await current_flags(self._options.forbidden_flags)
        # Cleared before the fetch: a notification or a retry during it asks for another one.
        woken, self._woken = self._woken, False
        self._look_at = float("inf")
        self._left = "more"
        self.follows = False
        sent_at = self._sent_at = self._looked_at = _now()
        worker_id = self._identity.worker_id
        # What was forbidden before may be runnable now.
        look = self.cursor.begin(sent_at, woken or forbidden != self.flags_of(worker_id))
        self._after = look.after
        with Stopwatch() as answer:
            claims = await self._claim(worker_id, wanted, forbidden, look.after)
        if not self.receive(worker_id, claims):
            return 0
        if claims:
            self.buffer.low_water = len(claims) // 2
            if self._observers.wanted(JobsFetched):
                self._observers.emit(JobsFetched(count=len(claims), wanted=wanted, duration_s=_now() - sent_at))
        self.cursor.took(look, claims, wanted)
        self._took_s = _now() - sent_at
        self._batch.took(len(claims), self._took_s, of_queues=any(claim.queue is not None for claim in claims))
        self._left = left_by(
            len(claims) < wanted, look.reach, may_begin_at_start=self.cursor.may_begin_at_start(_now())
        )
        if self._left != "more" and claims:
            await asyncio.sleep(0)  # The handlers start before this worker thinks of its rest.
        with Stopwatch() as alarm:
            if self._left != "more" and not self._woken:
                await self._set_alarm(look)
        self.cursor.ended(look, _now(), answer.took_s + alarm.took_s)
        return len(claims)

    @property
    def room(self) -> int:
        """How many claims may come without a look at all that waits: none if the last one was a while ago."""
        if self._stopping or self._woken or not self.may_fetch() or _now() - self._looked_at > TURN_S:
            return 0
        return self._wanted(self._promised + self._asked)

    async def look_beside(self, line: ReconnectingConnection) -> None:
        """If the last look was a while ago: does anybody wait for the slots of queues whose jobs follow each other?

        Where the last fetch has left nothing, only what has become due since then. If nothing has, there is room for a
        while again, at a tenth of the price of a fetch, and without freeing the queues.

        Args:
            line: Any connection of the worker.

        Raises:
            StoreError: See `failures.calling`.
        """
        now = _now()
        if now - self._looked_at <= TURN_S or not self._may_go_on:
            return
        # As in _set_alarm, twice the time.
        due_s = await next_due_s(line, 2 * (now - self._looked_at), self._after)
        if due_s is not None:
            self.wake_in(due_s)
        if due_s is None or due_s > 0:
            self._looked_at = max(now, self._looked_at)

    def promise(self, token: int, claims: int) -> None:
        """So many claims may be on their way, or so many fewer."""
        self._promised += claims
        if claims < 0:
            self.follows = True
            self.expected.discard(token)
            self._stir.set()
        else:
            self.expected.add(token)

    def flags_of(self, worker_id: int) -> list[str] | None:
        """The flags that the last fetch of this worker id forbade."""
        told_by, told = self._told_flags
        return told if told_by == worker_id else None

    def receive(self, worker_id: int, claims: list[Claim]) -> bool:
        """Take claims, or give them back if they are no longer wanted; whether they were."""
        if worker_id != self._identity.worker_id or self._stopping:
            reason = "the worker stops" if self._stopping else "the worker was declared dead"
            self.give_back(claims, reason, worker_id)
            return False
        if claims:
            self.buffer.put(self.admit(claims))
            self._stir.set()  # If they came by themselves: what finds no free slot goes back in time.
        return True

    def _take_over(self, worker_id: int, claims: list[Claim], made_at: float) -> None:
        """Take a claim that an add has made; give it back if a rescue may have taken it meanwhile."""
        if self.is_late(made_at):
            self.give_back(claims, "the message about it came late", worker_id)
        else:
            self.receive(worker_id, claims)

    async def _claim(self, worker_id: int, wanted: int, forbidden: list[str] | None, after: Place) -> list[Claim]:
        token, tasks, unbatched = self._identity.next_token(), self._identity.tasks, self._identity.unbatched
        self.expected.add(token)
        self._asked = wanted
        claims: list[Claim] = []
        try:
            async with shielded(self._line, self._patience.deadline_s):
                sent_at = now_s()
                await self._set_forbidden_flags(worker_id, forbidden)
                claims = await fetch_jobs(self._line, worker_id, token, wanted, tasks, forbidden, after, unbatched)
                is_late = now_s() - sent_at > HALF_GRACE_S
            if claims and is_late:
                claims = await self._still_held(worker_id, claims)
        except (AsyncqError, TimeoutError) as error:
            if is_unknown(error):
                self.lost.note(worker_id, token)
            raise
        finally:
            self.expected.discard(token)
            self._asked = 0
        return claims

    async def _still_held(self, worker_id: int, claims: list[Claim]) -> list[Claim]:
        """All claims of a late answer, if a beat proves that no rescue has taken them; otherwise none."""
        with anyio.CancelScope(shield=True):
            if await self.is_proven():
                return claims
        self.give_back(claims, "their fetch was answered late", worker_id)
        return []

    async def _set_forbidden_flags(self, worker_id: int, forbidden: list[str] | None) -> None:
        """Note in the worker's row what this fetch forbids, if that has changed: `explain` reads it."""
        if forbidden != self.flags_of(worker_id):
            await set_forbidden_flags(self._line, worker_id, forbidden)
        self._told_flags = (worker_id, forbidden)

    def _return_stale(self) -> None:
        """Give back claims that have not started for too long: another worker may have a free slot."""
        if _now() - self.buffer.filled_at >= STALE_S and (stale := self.buffer.overflow()):
            self.give_back(stale, "no slot became free", self._identity.worker_id)

    async def _set_alarm(self, look: Scan) -> None:
        """Know when to look again: at the next due time, from the start as soon as may be, or at the poll."""
        self._look_at = min(self._look_at, _now() + self._options.poll_s)
        if self._left == "unseen":
            self._look_at = min(self._look_at, self.cursor.due_at)
        due_s: float | None = None
        async with shielded(self._line, self._patience.deadline_s):
            # Twice the time since then: this statement may be longer on its way to the server than the fetch was.
            due_s = await next_due_s(self._line, 2 * (_now() - look.sent_at), look.after)
        if due_s is not None:
            self._look_at = min(self._look_at, _now() + due_s)

    @property
    def _may_go_on(self) -> bool:
        """Whether nobody is known to wait for the slots of queues: the last fetch, not long ago, has left nothing."""
        return self._left == "nothing" and not self._woken and _now() - self._sent_at <= LONGEST_TURN_S

    def _following(self) -> int:
        """How many claims `ClaimNext` may bring, or is about to ask for: their slots are not free."""
        return max(self._promised, self.following()) if self.buffer.waiting and self._may_go_on else self._promised

    def _wanted(self, coming: int) -> int:
        """How many to fetch now, if so many claims may come without that."""
        pace = self._pace.look(_now(), self._finished())
        return wanted_now(self.buffer.waiting, len(self.buffer) + coming, pace, self._batch.size, self._took_s)

    def _is_time(self, wanted: int) -> bool:
        if not wanted or not self.may_fetch():
            return False
        return self._woken or self._left == "more" or _now() >= self._look_at

    async def _sees_nothing(self) -> bool:
        """Poll by one cheap question instead of a fetch; True if nothing is due, for any worker.

        The question also finds out whether the hand-off slot was filled although no message came:

            what is known                            the slot is open   it asks   then a fetch follows
            something has happened                   -                  no        yes
            nothing was left, and a fetch is cheap   -                  yes       if something is due
            anything else                            yes                yes       yes
            anything else                            no                 no        yes
        """
        may_do_instead = self._left == "nothing" and self.cursor.is_cheap
        if self._woken or not (may_do_instead or self.handoff.token):
            return False
        due_s, is_taken, token = None, False, self.handoff.token
        # Before the answer: what becomes known while it is on its way may be due sooner.
        self._look_at = _now() + self._options.poll_s
        async with shielded(self._line, self._patience.deadline_s):
            due_s, is_taken = await poll(self._line, self._identity.worker_id, token)
        if is_taken and token == self.handoff.token:
            self.handoff.missed()
        if not may_do_instead or (due_s is not None and due_s <= 0):
            return False
        if due_s is not None:
            self._look_at = min(self._look_at, _now() + due_s)
        return True

    async def _rest(self, wanted: int) -> None:
        """It is not time to look: sleep, once somebody is told what happens meanwhile."""
        if not wanted or not self.may_fetch():
            if self.follows and self.on_call.is_in_charge:
                # What has just come is about to start, after a breath: there may be room again.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if self.lost.is_time or (self._wanted(self._following()) and self.may_fetch()):
                    return
            self.on_call.no_room()
        elif not await self.on_call.may_rest():
            self._woken = True
            return
        self.handoff.consider()
        await self._sleep(wanted)

    def _may_take(self) -> bool:
        return self.may_fetch()

    def _has_nothing_to_do(self) -> bool:
        is_free = self.buffer.waiting - self._following() >= self._options.concurrency and not self._stopping
        return is_free and self.is_idle and self.may_fetch()

    async def _sleep(self, wanted: int) -> None:
        """Until something happens; with a free slot, until it is time to look again."""
        self._stir.clear()
        pause_s = max(self._look_at - _now(), 0.0) if wanted and self.may_fetch() else self._options.poll_s
        if self._following():
            pause_s = min(pause_s, LONGEST_TURN_S)  # If the end cannot be written, the slot is free then.
        if len(self.buffer):
            pause_s = min(pause_s, STALE_S)
        try:
            async with asyncio.timeout(pause_s):
                await self._stir.wait()
        except TimeoutError:
            return

    async def _back_off(self, error: Exception, failures: int) -> None:
        wait_s = backoff_s(failures, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self._observers.emit(FetchFailed(error=words(error), retry_in_s=wait_s, failures=failures))
        self.on_call.no_room()
        self._woken = True
        await anyio.sleep(wait_s)


def left_by(saw_all: bool, reach: Reach, *, may_begin_at_start: bool) -> Left:
    """What a fetch has left.

        it saw all in   its reach    a look from the    has left   so the next fetch
        its reach                    start may begin
        no              -            -                  more       comes at once
        yes             everything   -                  nothing    waits for an event, the next due time or the poll
        yes             less         yes                more       comes at once, from the start
        yes             less         not yet            unseen     waits as above, but not longer than for that look

    Args:
        saw_all: Whether it brought all that there was in its reach.
        reach: What it could find.
        may_begin_at_start: Whether a look from the start may be afforded by now.
    """
    if saw_all and reach == "everything":
        return "nothing"
    return "unseen" if saw_all and not may_begin_at_start else "more"


def wanted_now(waiting: int, buffered: int, pace: float, batch: int, takes_s: float) -> int:
    """How many jobs to fetch now.

    Args:
        waiting: Free slots.
        buffered: Claims that wait for one.
        pace: Jobs that ended in a second, lately.
        batch: The most that one fetch takes, and the most that is to wait for slots when it has come.
        takes_s: How long a fetch takes: what starts meanwhile has room for its successor.

    Returns:
        As many as there are free slots, and as many more as will be started within `AHEAD_S` of its coming; 0 while at
        least half of that is there.
    """
    ahead = min(int(pace * AHEAD_S), batch)
    missing = waiting + ahead - max(0, buffered - int(pace * min(takes_s, AHEAD_S)))
    if not waiting and missing * 2 < ahead:
        return 0
    return max(0, min(missing, batch))


def _nowhere(claims: Collection[Claim], reason: str, worker_id: int) -> None:
    raise AssertionError(f"claims {claims} of worker {worker_id} have nowhere to go: {reason}")


async def _at_once() -> bool:
    return True


def _always() -> bool:
    return True


def _never(_made_at: float) -> bool:
    return False


def _none() -> int:
    return 0


def _now() -> float:
    return asyncio.get_running_loop().time()

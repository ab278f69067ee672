"""The loop that fetches jobs for one worker."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import msgspec

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import FetchFailed, JobsFetched
from asyncq.domain.job import Claim
from asyncq.domain.options import ForbiddenFlags, WorkerOptions, are_flags
from asyncq.domain.outcome import error_text
from asyncq.domain.share import Portion
from asyncq.engine.base import user_code
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import HALF_GRACE_S, now_s
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.base.stopwatch import Stopwatch
from asyncq.engine.fetch.cursor import FetchCursor, Scan
from asyncq.engine.fetch.handoff import Handoff
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.oncall import OnCall
from asyncq.engine.fetch.schedule import Schedule, left_by
from asyncq.engine.fetch.shares import Shares
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.claim import Fetched, Place, fetch_jobs, next_due_s, poll
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.workers import set_forbidden_flags

OF_LATE = 8
# If even the fastest of the last answers took too long for a rate, claims may start this much later than it.
START_S = 0.05
FIRST_RETRY_S = 0.04
SLOWEST_RETRY_S = 0.5


class Fetcher:
    """The fetcher of one worker; `is_proven` waits for a beat before the claims of a late answer may start."""

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        options: WorkerOptions,
        observers: Observers,
        inbox: Inbox,
        schedule: Schedule,
        *,
        unconfirmed: UnconfirmedFetches,
        on_call: OnCall,
        handoff: Handoff,
        shares: Shares,
        is_proven: Callable[[], Awaitable[bool]],
    ) -> None:
        self._line = line
        self._identity = identity
        self._options = options
        self._observers = observers
        self._inbox = inbox
        self._schedule = schedule
        self._unconfirmed = unconfirmed
        self._on_call = on_call
        self._handoff = handoff
        self._shares = shares
        self._is_proven = is_proven
        self._scope = anyio.CancelScope()
        self._answers_s: deque[float] = deque(maxlen=OF_LATE)  # of fetches of partitions
        self.cursor = FetchCursor()
        self._are_woken = False  # The next fetch begins with the partitions.

    def stop(self) -> None:
        """Fetch no more; a fetch that was sent is waited for, a function of the user's is not."""
        self._inbox.close()
        self._scope.cancel()

    async def run(self, progress: Callable[[], None], give_up_s: float | None = None) -> None:
        """Fetch until stopped; `progress` is called after each fetch.

        AsyncqError if fetches failed for longer than `give_up_s`; by default they are tried again for ever.
        """
        with self._scope:
            await self._until_stopped(progress, give_up_s)
        await self._on_call.stop()
        await self._handoff.stop()

    async def _until_stopped(self, progress: Callable[[], None], give_up_s: float | None) -> None:
        well_at = loop_time()
        outage = Outage("fetching", self._observers.emit)
        while not self._inbox.is_closed:
            self._inbox.return_stale()
            wanted = self._schedule.wanted
            if not (self._schedule.is_time(wanted) or self._unconfirmed.is_time):
                await self._rest(wanted)
                continue
            try:
                if self._unconfirmed.is_time:
                    await self._unconfirmed.give_back()  # With no free slot too: nobody else can.
                if self._schedule.is_time(wanted) and not await self._sees_nothing():
                    await self.fetch(wanted)
                well_at = loop_time()
                outage.over()
            except AsyncqError as error:
                failures = outage.failed()
                if give_up_s is not None and loop_time() - well_at > give_up_s:
                    raise
                await self._back_off(error, failures)
            progress()

    async def fetch(self, wanted: int) -> int:
        """Claim up to so many jobs, and put them into the inbox; returns their number.

        Claims whose answer was lost are noted, and given back later.
        """
        forbidden = await current_flags(self._options.forbidden_flags)
        schedule, worker_id = self._schedule, self._identity.worker_id
        is_woken, sent_at = schedule.begin(), loop_time()
        # Jobs whose flags were forbidden before may be runnable now.
        scan = self.cursor.begin(sent_at, is_woken or forbidden != self._identity.row_flags.get(worker_id))
        limited: Fetched | None = None
        with Stopwatch() as answer:
            plain = (
                await self._claim(worker_id, wanted, forbidden, scan.after, yields=True)
                if not self._are_woken
                else None
            )
        if plain is None or plain.are_woken:
            wanted = min(wanted, schedule.most_of_partitions)
            limited = await self._claim_limited(worker_id, wanted, forbidden, scan.after)
            self._are_woken = limited.again_s == 0 or len(limited.claims) == wanted
            if len(limited.claims) == wanted:
                self.cursor.drop(scan)
                schedule.took(limited.claims, scan.after)
                return self._brought(limited.claims, wanted, loop_time() - sent_at)
            with Stopwatch() as answer:
                plain = await self._claim(worker_id, wanted - len(limited.claims), forbidden, scan.after)
            self._are_woken = self._are_woken and plain.are_woken
        if not self._inbox.receive(worker_id, plain.claims):
            return 0
        self.cursor.took(scan, plain.claims, wanted - len(limited.claims) if limited else wanted)
        claims = plain.claims + limited.claims if limited else plain.claims
        count = self._brought(claims, wanted, loop_time() - sent_at)
        schedule.took(claims, scan.after)
        schedule.left = left_by(
            count < wanted and not (limited and limited.again_s == 0),
            scan.reach,
            may_begin_at_start=self.cursor.may_begin_at_start(loop_time()),
        )
        if limited and limited.again_s:
            schedule.wake_in(limited.again_s)
        if schedule.left != "more" and claims:
            await asyncio.sleep(0)  # The handlers start before this worker thinks of its rest.
        with Stopwatch() as alarm:
            if schedule.left != "more" and not schedule.is_woken:
                await self._set_alarm(scan)
        self.cursor.ended(scan, loop_time(), answer.took_s + alarm.took_s)
        return count

    def _brought(self, claims: list[Claim], wanted: int, took_s: float) -> int:
        """Take note of the claims of a fetch; returns their number."""
        if claims:
            self._inbox.buffer.low_water = len(claims) // 2
            if self._observers.wanted(JobsFetched):
                self._observers.emit(JobsFetched(count=len(claims), wanted=wanted, duration_s=took_s))
        return len(claims)

    async def _claim_limited(self, worker_id: int, wanted: int, forbidden: list[str] | None, after: Place) -> Fetched:
        """Claim jobs of partitions that are for this worker."""
        return await self._shares.fetch(wanted, partial(self._claim_portion, worker_id, forbidden, after))

    async def _claim_portion(
        self, worker_id: int, forbidden: list[str] | None, after: Place, wanted: int, portion: Portion
    ) -> Fetched:
        fetched = await self._claim(worker_id, wanted, forbidden, after, portion)
        self._shares.hold(portion, fetched.claims)  # First: the inbox may give some back.
        return fetched if self._inbox.receive(worker_id, fetched.claims) else Fetched([])

    async def _claim(
        self,
        worker_id: int,
        wanted: int,
        forbidden: list[str] | None,
        after: Place,
        portion: Portion | None = None,
        *,
        yields: bool = False,
    ) -> Fetched:
        identity, token = self._identity, self._identity.next_token()
        arguments = (worker_id, token, wanted, identity.tasks, forbidden, after, identity.unbatched)
        self._inbox.expect(token, wanted)
        try:
            async with shielded(self._line):
                sent_at = now_s()
                if forbidden != identity.row_flags.get(worker_id):
                    # `explain` reads them in the worker's row.
                    await set_forbidden_flags(self._line, worker_id, forbidden)
                identity.row_flags = {worker_id: forbidden}
                which = None if portion is None else portion.which
                with Stopwatch() as answer:
                    fetched = await fetch_jobs(
                        self._line, *arguments, of_partitions=portion is not None, choice=which, yields=yields
                    )
                is_late = now_s() - sent_at > HALF_GRACE_S
            if portion is not None:
                self._answers_s.append(answer.took_s)
                self._schedule.took_of_partitions(fetched, wanted, answer.took_s)
            if fetched.start_within_s is not None:
                start_by = sent_at + latest_start_s(fetched.start_within_s, min(self._answers_s))
                claims = [msgspec.structs.replace(claim, start_by=start_by) for claim in fetched.claims]
                fetched = msgspec.structs.replace(fetched, claims=claims)
            if fetched.claims and is_late:
                fetched = Fetched(await self._still_held(worker_id, fetched.claims))
        except AsyncqError as error:
            if is_unknown(error):
                self._unconfirmed.note(worker_id, token)
            raise
        finally:
            self._inbox.answered(token)
        return fetched

    async def _still_held(self, worker_id: int, claims: list[Claim]) -> list[Claim]:
        """All claims of a late answer, if a beat proves that no rescue has taken them; otherwise none."""
        with anyio.CancelScope(shield=True):
            if await self._is_proven():
                return claims
        self._inbox.give_back(claims, "their fetch was answered late", worker_id)
        return []

    async def _set_alarm(self, scan: Scan) -> None:
        """Know when to look again: at the next due time, from the start as soon as may be, or at the poll."""
        self._schedule.wake_in(self._options.poll_s)
        if self._schedule.left == "unseen":
            self._schedule.wake_in(self.cursor.due_at - loop_time())
        async with shielded(self._line):
            due_s = await next_due_s(self._line, scan.sent_at, scan.after)
        if due_s is not None:
            self._schedule.wake_in(due_s)

    async def _sees_nothing(self) -> bool:
        """Poll cheaply; True if nothing is due and no fetch is needed.

        The same statement asks whether the hand-off was taken without a message:

            what is known                            a slot is open   it is asked   then a fetch follows
            something has happened                   -                no            yes
            nothing was left, and a fetch is cheap   -                yes           if something is due
            anything else                            yes              yes           yes
            anything else                            no               no            yes
        """
        schedule, handoff = self._schedule, self._handoff
        may_do_instead = schedule.left == "nothing" and self.cursor.is_cheap
        if schedule.is_woken or not (may_do_instead or handoff.token):
            return False
        token = handoff.token
        # Before the answer: a job that is reported while it is on its way may be due sooner.
        schedule.poll_later()
        async with shielded(self._line):
            due_s, is_taken = await poll(self._line, self._identity.worker_id, token)
        if is_taken and token == handoff.token:
            handoff.missed()
        if not may_do_instead or (due_s is not None and due_s <= 0):
            return False
        if due_s is not None:
            schedule.wake_in(due_s)
        return True

    async def _rest(self, wanted: int) -> None:
        """Sleep until it is time to fetch, once some worker is notified of adds meanwhile."""
        schedule = self._schedule
        if not wanted or not schedule.may_fetch():
            if schedule.follows and self._on_call.is_in_charge:
                # The claims that have just come start in a moment: there may be room again.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if self._unconfirmed.is_time or (schedule.wanted and schedule.may_fetch()):
                    return
            self._on_call.no_room()
        elif not await self._on_call.may_rest():
            schedule.wake()
            return
        self._handoff.consider()
        await self._inbox.wait(schedule.pause_s(wanted))

    async def _back_off(self, error: Exception, failures: int) -> None:
        wait_s = backoff_s(failures, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self._observers.emit(FetchFailed(error=error_text(error), retry_in_s=wait_s, failures=failures))
        self._on_call.no_room()
        self._schedule.wake()
        await anyio.sleep(wait_s)


def latest_start_s(start_within_s: float, fastest_s: float) -> float:
    """How long after its fetch was sent a claim that a rate counts may start; later it goes back.

    The server's period of the rate is longer by `start_within_s`. If all answers take longer than that, claims have
    more time: none would ever start.
    """
    return max(start_within_s, fastest_s + START_S)


async def current_flags(forbidden: ForbiddenFlags) -> list[str] | None:
    """The flags that are forbidden now, or None. If cancelled, the user's function is too, and is not awaited."""
    if not callable(forbidden):
        return list(forbidden) if forbidden else None
    flags: Any = await user_code.call(forbidden)
    if isinstance(flags, user_code.Raised):
        raise AsyncqError(f"forbidden_flags failed, so nothing is fetched: {flags.error!r}") from flags.error
    if flags is not None and not are_flags(flags):
        said = "forbidden_flags must return a list of str that PostgreSQL can store, so nothing is fetched"
        raise AsyncqError(f"{said}: it returned {flags!r}")
    return [*flags] if flags else None

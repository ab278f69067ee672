"""Adds the jobs of recurring items: reads the clock once a minute, and handles every slot since the last round.

The clock is the server's, so that all workers of a database agree. Each slot becomes one job, added by the first
worker. Each round also notices changes of stored items.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import anyio
from anyio.abc import TaskStatus

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import Slot, in_order
from asyncq.domain.cron.stored import StoredItem
from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import (
    CronClockJumped,
    CronFailed,
    CronItemFailed,
    CronItemsChanged,
    CronStarted,
    MaintenanceFailed,
    UnknownCronTasks,
)
from asyncq.domain.outcome import error_line, error_text
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.groups import report_started
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.user_code import Raised
from asyncq.engine.cron.slot_adder import SlotAdder
from asyncq.engine.cron.stored_items import StoredItems, declaration
from asyncq.engine.cron.timetable import Entry, Timetable, next_window
from asyncq.store.crontabs import declare, look
from asyncq.store.database import Database, ReconnectingConnection

MINUTE = timedelta(minutes=1)
JUST_AFTER_S = 0.001  # a timer that ends a little early would have to wait again
TOLERATED = timedelta(seconds=1)  # clocks are often corrected by less
FIRST_RETRY_S = 0.2
SLOWEST_RETRY_S = 60.0


class Cron:
    """The recurring jobs of one worker.

    It reads the clock on the fetcher's connection, which is open anyway. It sleeps at most `longest_s`: without LISTEN
    it reads changed items this often.
    """

    def __init__(
        self,
        database: Database,
        line: ReconnectingConnection,
        items: Sequence[CronItem],
        identity: Identity,
        observers: Observers,
        *,
        longest_s: float = 60.0,
    ) -> None:
        self._line = line
        self._own = tuple(items)
        self._identity = identity
        self._unknown = sorted({item.task_name for item in items}.difference(identity.registry))
        self._observers = observers
        self._longest_s = longest_s
        self._adder = SlotAdder(database, observers)
        self._timetable = Timetable(items)
        self._stored = StoredItems(identity.registry, [item.identifier for item in items], observers)
        self._declared_as = 0
        self._read: int | None = None
        self._has_begun = False
        self._last: datetime | None = None
        self._stir = asyncio.Event()
        self._scope = anyio.CancelScope()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Add the jobs of slots until it is stopped; started when the items are known, or the first attempt has failed.

        If cancelled, it waits for the slots that were sent.
        """
        failures = 0
        if self._unknown:
            self._observers.emit(UnknownCronTasks(names=tuple(self._unknown)))
        try:
            with self._scope:
                while True:
                    try:
                        wait_s = await self.round(task_status)
                        failures = 0
                    except AsyncqError as error:
                        failures += 1
                        wait_s = self._failed(error, failures)
                        report_started(task_status)
                    with anyio.move_on_after(wait_s):
                        await self._stir.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()
            # The worker was stopped before the items were known.
            report_started(task_status)

    async def round(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> float:
        """Read the clock, add the jobs of all slots up to now, and return the seconds until the next round."""
        self._stir.clear()
        await self._declare()
        # Read before it: the answer may wait for as long as a handler blocks the loop.
        asked_at = loop_time()
        now, items = await look(self._line)
        anew: Collection[str] = ()
        if not self._has_begun:
            anew = await self._begin(now, items)
            report_started(task_status)
        else:
            if self._last is not None and (by := jump(self._last, now)):
                self._observers.emit(CronClockJumped(by_s=by.total_seconds()))
            if items != self._read:
                anew = await self._read_again(now, items)
        self._last = now
        added = await self._catch_up(now)
        await self._publish(now, {*anew, *added})
        await self._adder.line.rest()
        wait_s = min(until_next_minute_s(now) - (loop_time() - asked_at), self._longest_s)
        retry_s = self._timetable.next_retry_s(loop_time())
        return wait_s if retry_s is None else min(wait_s, retry_s)

    def wake(self) -> None:
        """Do a round now, because stored items have changed, or a test has moved the clock."""
        self._stir.set()

    def stop(self) -> None:
        """Add no more slots; the ones that were sent are awaited."""
        self._scope.cancel()

    async def close(self) -> None:
        await self._adder.line.close()

    async def _declare(self) -> None:
        """Publish the items of the own crontab, before the first slot and under each new worker id."""
        if (worker_id := self._identity.worker_id) != self._declared_as and worker_id:
            await declare(self._line, worker_id, await declaration(self._own))
            self._declared_as = worker_id

    async def _begin(self, now: datetime, items: int) -> Collection[str]:
        """Set the start of all items, at the beginning or after an outage; returns their identifiers."""
        stored = await self._read_stored()
        self._timetable.store(stored)
        known = await self._adder.register(self._timetable.own, [one.item.identifier for one in stored])
        self._timetable.begin(known, now)
        identifiers = self._timetable.identifiers
        self._has_begun, self._read = True, items
        if identifiers:
            self._observers.emit(CronStarted(items=identifiers))
        return identifiers

    async def _read_again(self, now: datetime, items: int) -> Collection[str]:
        """Read changed stored items: those begin again, the others continue. Returns the items to publish.

        The result also has items that look unchanged: removed and stored again since the last round, or resumed. Their
        next run was not published yet.
        """
        changed, gone = self._timetable.store(await self._read_stored())
        self._timetable.begin(await self._adder.register((), changed), now)
        self._read = items
        if changed or gone:
            self._observers.emit(CronItemsChanged(items=tuple(changed), gone=tuple(gone)))
        return self._timetable.identifiers

    async def _read_stored(self) -> list[StoredItem]:
        return await self._stored.read(self._line)

    async def _publish(self, now: datetime, identifiers: Collection[str]) -> None:
        """Publish when these items are due next, and which ones cannot be scheduled. It is a hint, and may fail."""
        states = [*self._stored.unpublished]
        entries = [entry for entry in self._timetable.entries if entry.item.identifier in identifiers]
        states += [await entry.state(now) for entry in entries]
        if not states:
            return
        try:
            await self._adder.publish(states)
            self._stored.unpublished.clear()
        except AsyncqError as error:
            said = f"next runs of recurring items are not stored: {error_text(error)}"
            self._observers.emit(MaintenanceFailed(error=said))

    async def _catch_up(self, now: datetime) -> Collection[str]:
        """Add the jobs of slots up to now, window by window, and return their items. A failed item stays behind."""
        added: set[str] = set()
        behind = self._timetable.behind(now, loop_time())
        while behind:
            until = next_window(behind, now)
            taken = [entry for entry in behind if entry.after < until]
            failed = await self._add_window(taken, until, added)
            behind = [entry for entry in behind if entry.after < now and entry.item.identifier not in failed]
        return added

    async def _add_window(self, entries: Sequence[Entry], until: datetime, added: set[str]) -> Collection[str]:
        """Add the jobs of slots of items up to a time; returns the items that failed."""
        failed: dict[str, str] = {}
        raised: dict[str, BaseException] = {}
        found: list[Slot] = []
        for entry in entries:
            slots = await entry.look(until)
            if isinstance(slots, Raised):
                failed[entry.item.identifier] = error_line(slots.error)
                raised[entry.item.identifier] = slots.error
            else:
                found += slots
        failed |= await self._adder.add(in_order(found), added)
        for entry in entries:
            error = failed.get(entry.item.identifier)
            if error is None:
                entry.done(until)
            else:
                wait_s = entry.failed(loop_time())
                event = CronItemFailed(item=entry.item.identifier, error=error, retry_in_s=wait_s)
                self._observers.emit(event, raised.get(event.item))
        return failed

    def _failed(self, error: Exception, failures: int) -> float:
        """Begin all items again after a wait, so that no slot is lost. Returns the wait."""
        self._has_begun, self._last = False, None
        wait_s = backoff_s(failures, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self._observers.emit(CronFailed(error=error_text(error), retry_in_s=wait_s, failures=failures))
        return wait_s


def until_next_minute_s(now: datetime) -> float:
    """The seconds until the next whole minute, and a moment more."""
    return 60.0 - now.second - now.microsecond / 1e6 + JUST_AFTER_S


def jump(last: datetime, now: datetime) -> timedelta | None:
    """How much too late a round came, if it missed a whole minute; negative if the clock went back."""
    if now < last - TOLERATED:
        return now - last
    late = now - (last.replace(second=0, microsecond=0) + MINUTE)
    return late if late >= MINUTE else None

"""Wakes this worker and others after settlements were written: a partition has room, or a job waits for its retry."""

from collections.abc import Callable, Iterable

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.options import LONGEST_POLL_S
from asyncq.domain.outcome import Settlement
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.oncall import OnCall
from asyncq.engine.fetch.schedule import Schedule
from asyncq.store import workers as store
from asyncq.store.database import ReconnectingConnection


class WakeUps:
    """Wakes workers after one worker's settlements; with `once` the worker runs only until nothing is runnable."""

    def __init__(
        self,
        line: ReconnectingConnection,
        observers: Observers,
        schedule: Schedule,
        on_call: OnCall,
        start_soon: Callable[..., object],
        *,
        once: bool,
    ) -> None:
        self._line = line
        self._observers = observers
        self._schedule = schedule
        self._on_call = on_call
        self._start_soon = start_soon
        self._once = once
        self._is_wanted = False
        self._sent = anyio.Event()
        self._sent.set()

    def settled(self, settlements: Iterable[Settlement]) -> None:
        """Wake workers for which these written settlements may have made a job runnable."""
        if self._once:
            self._schedule.wake()  # This worker does not listen: one more fetch finds jobs that a job added.
        wakes_others = False
        for settlement in settlements:
            waits = settlement.delay_s is not None and not settlement.discarded
            if waits:
                delay_s = settlement.delay_s or 0.0
                self._schedule.wake_in(delay_s)
                # Idle workers do not know this job, and this worker may be busy or stopped when it is due.
                wakes_others = wakes_others or delay_s <= LONGEST_POLL_S
            if settlement.partition is not None or not (waits or settlement.end is not None):
                self._schedule.wake()
                wakes_others = wakes_others or self._on_call.is_mixed or not self._schedule.has_room
        if wakes_others:
            self._is_wanted = True
            if self._sent.is_set():
                self._sent = anyio.Event()
                self._start_soon(self._wake_others)

    async def sent(self) -> None:
        """Wait until no wake-up is under way."""
        await self._sent.wait()

    async def _wake_others(self) -> None:
        """Wake other workers, for a job that this one may not run, or not now. It is a hint, and may fail."""
        try:
            while self._is_wanted:
                self._is_wanted = False
                await store.wake_workers(self._line)
        except AsyncqError as error:
            self._observers.emit(MaintenanceFailed(error=f"other workers could not be woken: {error}"))
        finally:
            self._sent.set()

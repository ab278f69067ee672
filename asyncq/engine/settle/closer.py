"""Looks after jobs that wait for others: releases them, or cancels them, once the others have ended.

A look follows the commit of the end. A worker looks at once after its own settlements, soon after a notification of the
end of another transaction, and now and then for what a dead worker has left.
"""

import random

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import InputsRefused, JobBlocked, JobsReleased, MaintenanceFailed
from asyncq.domain.outcome import error_text
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.fetch.schedule import Schedule
from asyncq.store.database import ReconnectingConnection
from asyncq.store.looks import CLOSINGS, Look, look

BATCH = 500
FIRST_RETRY_S = 0.02
HEARD_WITHIN_S = 0.01  # each worker is notified of an end: they do not look at the same moment


class Closer:
    """The looks of one worker, at least one every `every_s` seconds."""

    def __init__(
        self, line: ReconnectingConnection, observers: Observers, schedule: Schedule, *, every_s: float
    ) -> None:
        self._line = line
        self._observers = observers
        self._schedule = schedule
        self._every_s = every_s
        self._wanted, self._urgent = anyio.Event(), anyio.Event()
        self._outage = Outage("looking at jobs that wait for others", observers.emit)

    def hurry(self) -> None:
        """Look now: a settlement of this worker has ended a job for which others wait."""
        self._wanted.set()
        self._urgent.set()

    def heard(self, text: str) -> bool:
        """Handle a notification; returns whether it is one of such an end."""
        if text == CLOSINGS:
            self._wanted.set()
        return text == CLOSINGS

    async def run_for_ever(self) -> None:
        """Look when it is wanted, and now and then. If another transaction holds a waiter, it looks again soon."""
        tries = 0
        while True:
            self._wanted, self._urgent = anyio.Event(), anyio.Event()
            tries = tries + 1 if "held" in await self._look() else 0
            wait_s = (
                backoff_s(tries, FIRST_RETRY_S, self._every_s) if tries else self._every_s * random.uniform(0.8, 1.2)
            )
            with anyio.move_on_after(wait_s):
                await self._wanted.wait()
                with anyio.move_on_after(random.uniform(0.0, HEARD_WITHIN_S)):
                    await self._urgent.wait()

    async def look(self) -> bool:
        """Look once; returns whether a job was released or cancelled, so that another one may start or end now."""
        return bool(await self._look() & {"released", "cancelled"})

    async def _look(self) -> set[str]:
        """Look, and report it. Returns the kinds of outcomes; held also if the store cannot be used.

        One transaction for each `BATCH` of ends: between them the connection is free for fetches.
        """
        outcomes: set[str] = set()
        after_id: int | None = 0
        while after_id is not None:
            try:
                async with shielded(self._line):
                    looks, after_id = await look(self._line, after_id, BATCH)
                self._outage.over()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=error_text(error), failures=self._outage.failed()))
                return outcomes | {"held"}
            self._report(looks)
            outcomes |= {one.outcome for one in looks}
        return outcomes

    def _report(self, looks: list[Look]) -> None:
        for one in looks:
            if one.outcome == "blocked" and one.job_id is not None:
                self._observers.emit(JobBlocked(waiter=one.waiter, failed=one.job_id))
            if one.outcome == "refused":
                self._observers.emit(InputsRefused(waiter=one.waiter))
        released = tuple(one.waiter for one in looks if one.outcome == "released")
        cancelled = tuple(one.waiter for one in looks if one.outcome == "cancelled")
        if released or cancelled:
            self._observers.emit(JobsReleased(released=released, cancelled=cancelled))
            self._schedule.wake()

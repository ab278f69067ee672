"""Moves jobs into their partitions, a page at a time, after the limit of their task has changed or it was paused."""

import asyncio
import random

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.outcome import error_text
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.store.database import ReconnectingConnection
from asyncq.store.moving import end_moves, move_jobs

PAGE = 500
EVERY_S = 60.0
LONGEST_S = 20.0  # after this time the rest is left to the next run


class Mover:
    """The mover of one worker. There is no leader: workers skip rows that another one has locked."""

    def __init__(self, line: ReconnectingConnection, observers: Observers) -> None:
        self._line = line
        self._observers = observers
        self._after = 0
        self._outage = Outage("moving jobs", observers.emit)
        self._wanted = asyncio.Event()

    def hurry(self) -> None:
        """Begin the next walk now: a task was paused."""
        self._wanted.set()

    async def run_for_ever(self) -> None:
        """Walk about once a minute, or when `hurry` is called, also after an error.

        It runs in an asyncio task of its own, so that no rescue waits for it.
        """
        while True:
            self._wanted.clear()
            try:
                await self.run(LONGEST_S)
                self._outage.over()
            except AsyncqError as error:
                self._observers.emit(MaintenanceFailed(error=error_text(error), failures=self._outage.failed()))
            with anyio.move_on_after(EVERY_S * random.uniform(0.8, 1.2)):
                await self._wanted.wait()

    async def run(self, longest_s: float) -> None:
        """Walk over all jobs until a walk has found nothing to move, or `longest_s` seconds have passed.

        If cancelled, it ends after the running statement; pages that were moved stay moved.
        """
        until = asyncio.get_running_loop().time() + longest_s
        found = True
        while found and asyncio.get_running_loop().time() < until:
            found = await self._walk(until)

    async def _walk(self, until: float) -> bool:
        """Walk over all jobs once; returns whether another walk is needed, because this one found any to move.

        It ends early at the time `until`; the next walk goes on from there.
        """
        after: int | None = self._after
        total, horizon = 0, None
        while after is not None:
            async with shielded(self._line):
                page = await move_jobs(self._line, after, PAGE)
            if after == 0:
                horizon = page.horizon
            total += page.found
            after = page.last_id
            if after is not None and asyncio.get_running_loop().time() >= until:
                self._after = after
                return True
        self._after = 0
        # Only a walk that began at the first job proves that nothing is left.
        if horizon is not None and not total:
            async with shielded(self._line):
                await end_moves(self._line, horizon)
        return total > 0

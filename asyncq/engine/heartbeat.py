"""Proves that the worker lives, whatever its handlers do to the event loop: in a thread, on a connection of its own.

Each beat also finds the jobs that were cancelled without the worker having heard of it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection

import anyio.to_thread

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import Event, HeartbeatFailed
from asyncq.engine.identity import Identity
from asyncq.store.database import Database, Line
from asyncq.store.workers import beat

BEATS_A_LEASE = 3
END_S = 5.0


class Heartbeat:
    """The heartbeat of one worker.

    Args:
        database: Where.
        identity: Who lives.
        lease_s: The lease; three beats to each.
        emit: Takes events, in the event loop.
        lost: Called in the event loop, with the worker's id, when others declared it dead.
        cancelled: Called in the event loop, with the worker's id and (job id, token) of each of its running jobs that
            was cancelled; at every beat, as long as they run.
    """

    def __init__(
        self,
        database: Database,
        identity: Identity,
        lease_s: float,
        emit: Callable[[Event], None],
        lost: Callable[[int], None],
        cancelled: Callable[[int, Collection[tuple[int, int]]], None],
    ) -> None:
        self._database = database
        self._identity = identity
        self._lease_s = lease_s
        self._emit = emit
        self._lost = lost
        self._cancelled = cancelled
        self._home = asyncio.get_running_loop()
        self._away: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._stirred: asyncio.Event | None = None
        self._beaten_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="asyncq heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; waits for a beat that is under way, at most `END_S`."""
        self._stop.set()
        self.beat_now()
        # A thread of our own: those of the loop may all be taken by blocked handlers.
        await anyio.to_thread.run_sync(self._thread.join, END_S, limiter=anyio.CapacityLimiter(1))

    def beat_now(self) -> None:
        """Do not wait for the next beat; one that is under way is followed by another."""
        if self._away is not None and self._stirred is not None and not self._away.is_closed():
            try:
                self._away.call_soon_threadsafe(self._stirred.set)
            except RuntimeError:
                pass  # The thread's loop closed in this very moment: it has ended.

    def _run(self) -> None:
        asyncio.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._away = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        line = Line(self._database, "heartbeat")
        pause_s = self._lease_s / BEATS_A_LEASE
        try:
            while not self._stop.is_set():
                # Before the beat: whoever asks for one during it gets another.
                self._stirred.clear()
                wait_s = pause_s if await self._beat(line) else min(pause_s, 1.0)
                try:
                    async with asyncio.timeout(wait_s):
                        await self._stirred.wait()
                except TimeoutError:
                    continue
        finally:
            await line.close()

    async def _beat(self, line: Line) -> bool:
        """One sign of life; returns whether it was written."""
        worker_id = self._identity.worker_id
        try:
            async with asyncio.timeout(self._lease_s / BEATS_A_LEASE):
                cancelled = await beat(line, worker_id)
        except (AsyncqError, TimeoutError) as error:
            silent_s = time.monotonic() - self._beaten_at
            said = str(error) or type(error).__name__
            self._tell(
                self._emit,
                HeartbeatFailed(worker_id=worker_id, error=said, silent_s=silent_s, lease_s=self._lease_s),
            )
            await line.close()
            return False
        self._beaten_at = time.monotonic()
        if cancelled is None:
            self._tell(self._lost, worker_id)
        elif cancelled:
            self._tell(self._cancelled, worker_id, cancelled)
        return True

    def _tell(self, function: Callable[..., object], *args: object) -> None:
        """Call something in the worker's event loop."""
        if not self._home.is_closed():
            self._home.call_soon_threadsafe(function, *args)

"""Proves that the worker lives, whatever its handlers do to the event loop: in a thread, on a connection of its own.

While that connection lives, the server holds the worker's lock; when it ends, others give the worker a second to say
that it lives. Each beat also finds the jobs that were cancelled without the worker having heard of it, and whether the
schema needs a newer release by now. Between beats the thread looks whether other workers have died.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Collection

import anyio.to_thread

from asyncq.domain.options import WorkerOptions
from asyncq.domain.share import Choice
from asyncq.engine.base.lease import Lease
from asyncq.engine.liveness.heartbeat_thread import END_S, HeartbeatCallbacks, HeartbeatCommands, HeartbeatThread
from asyncq.engine.liveness.loop_watchdog import LoopWatchdog
from asyncq.store.database import Database
from asyncq.store.workers import Cancelled


class Heartbeat:
    """The heartbeat of one worker, as the worker's event loop uses it; most methods call one of `HeartbeatThread`."""

    def __init__(
        self, database: Database, options: WorkerOptions, tasks: Collection[str], lease: Lease, choice: Choice
    ) -> None:
        self._database = database
        self._options = options
        self._tasks = list(tasks)
        self._lease = lease
        self._choice = choice
        self._commands = HeartbeatCommands()
        self._heartbeat_thread: HeartbeatThread | None = None
        self._thread: threading.Thread | None = None

    def start(self, callbacks: HeartbeatCallbacks, watchdog: LoopWatchdog) -> None:
        self._heartbeat_thread = HeartbeatThread(
            self._database,
            self._options,
            self._tasks,
            self._lease,
            choice=self._choice,
            callbacks=callbacks,
            watchdog=watchdog,
            commands=self._commands,
        )
        thread = threading.Thread(target=self._heartbeat_thread.run, name="asyncq heartbeat", daemon=True)
        thread.start()
        self._thread = thread

    async def register(self) -> int:
        """Make the worker known, with its lock in hand; from then on it beats. Returns its id, never used before.

        If cancelled, the worker may be known; its lock is free when the heartbeat stops.
        """
        asked: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._commands.registrations.append(asked)
        self._call(HeartbeatThread.stir)
        if self.has_ended:
            self._commands.refuse_all()
        return await asyncio.wrap_future(asked)

    @property
    def has_ended(self) -> bool:
        """Whether it stops or has stopped, so that nobody can register any more."""
        return self._commands.stop.is_set()

    async def stop(self, *, keep_claims: bool = False, forget_worker: bool = False) -> None:
        """End the thread; waits for a beat that is under way, at most `END_S`. Only the first call counts.

        With `keep_claims` handlers continue, and the claims are held until the lease is over. With `forget_worker` the
        worker never fetched, and its row is removed.
        """
        if self._commands.stop.is_set():
            return
        self._commands.keep_claims, self._commands.forget_worker = keep_claims, forget_worker
        self._commands.stop.set()
        self._call(HeartbeatThread.stir)
        if self._thread is not None:
            # A thread of our own: those of the loop may all be taken by blocked handlers.
            await anyio.to_thread.run_sync(self._thread.join, END_S, limiter=anyio.CapacityLimiter(1))

    def beat_now(self) -> None:
        self._call(HeartbeatThread.hurry)

    def questioned(self) -> None:
        self._call(HeartbeatThread.answer)

    def stood_in(self, worker_id: int, answer: Cancelled, sent_at: float) -> None:
        self._call(HeartbeatThread.stood_in, worker_id, answer, sent_at)

    def _call(self, method: Callable[..., object], *args: object) -> None:
        if self._heartbeat_thread is not None:
            self._heartbeat_thread.call(method, self._heartbeat_thread, *args)

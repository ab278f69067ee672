"""The heartbeat thread of a worker, with its event loop and its connection.

Each beat lists the claims that have started, and returns those whose jobs were cancelled. Between beats the thread
checks whether other workers have died. It uses one connection, which holds the worker's lock (`HeartbeatLines`).
"""

import asyncio
import concurrent.futures
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence

import anyio
import msgspec

from asyncq.domain.errors import AsyncqError, SchemaError, SchemaTooNew, StoreUnavailable
from asyncq.domain.events import Event, HeartbeatFailed
from asyncq.domain.options import WorkerOptions
from asyncq.domain.outcome import error_text
from asyncq.domain.share import Choice
from asyncq.engine.base.lease import BEATS_A_LEASE, GRACE_S, HALF_GRACE_S, Lease, look_in_s, now_s
from asyncq.engine.base.outage import Outage
from asyncq.engine.liveness.heartbeat_lines import HeartbeatLines
from asyncq.engine.liveness.lease_state import LeaseState
from asyncq.engine.liveness.loop_watchdog import LoopWatchdog, Note
from asyncq.store.database import Database
from asyncq.store.failures import NO_ANSWER, is_answer, is_refusal, may_work_elsewhere
from asyncq.store.heartbeat_connection import HeartbeatConnection
from asyncq.store.workers import Cancelled

END_S = 5.0
REGISTER_S = 15.0
SOON_S = 0.05  # how soon a lost lock is asked for again, while others wait for that
LATER_S = 0.5  # and how soon after that
TELL_EVERY_S = 1.0


class HeartbeatCallbacks(msgspec.Struct, frozen=True):
    """What the heartbeat calls, in the worker's event loop.

    Attributes:
        lost: Others declared this worker dead; with its id.
        gave_up: It cannot be proven in time that this worker lives; with its id and the reason.
        cancelled: Running jobs were cancelled; with the worker's id and (job id, token) of each, at every beat as long
            as they run.
        named: These claims, each as `job/token`, have been named as started.
        fallback: A sign of life is wanted over another connection.
        fail: This worker must not go on: the schema needs a newer release (at every beat from then on), or its
            heartbeat has failed.
        started: Called in the heartbeat's thread: which claims have started, each as `job/token`.
        stuck: The same: the jobs whose handlers ignore that they were cancelled.
    """

    emit: Callable[[Event], None]
    lost: Callable[[int], None]
    gave_up: Callable[[int, str], None]
    regained: Callable[[], None]
    cancelled: Callable[[int, Collection[tuple[int, int]]], None]
    named: Callable[[Collection[str]], None]
    fallback: Callable[[], None]
    rescue: Callable[[], None]
    fail: Callable[[Exception], None]
    started: Callable[[], Sequence[str]]
    stuck: Callable[[], Sequence[int]]


class HeartbeatCommands:
    """The commands of a worker to its heartbeat thread. Both threads may use it at any time.

    Attributes:
        stop: Set when the thread has to stop, or has stopped. Then no worker can register.
        keep_claims: Whether handlers go on after the stop; set before `stop`.
        forget_worker: Whether the worker has never fetched, so that its row goes; set before `stop`.
        registrations: Workers that wait to be registered; each future gets the worker's id.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.keep_claims = self.forget_worker = False
        self.registrations: deque[concurrent.futures.Future[int]] = deque()

    def refuse_all(self) -> None:
        while True:
            try:
                asked = self.registrations.popleft()
            except IndexError:
                return
            _fail(asked, StoreUnavailable("the heartbeat has stopped"))


class HeartbeatThread:
    """The heartbeat thread of one worker; made in its event loop. Once it runs, other threads may only use `call`."""

    def __init__(
        self,
        database: Database,
        options: WorkerOptions,
        tasks: Sequence[str],
        lease: Lease,
        *,
        choice: Choice,
        callbacks: HeartbeatCallbacks,
        watchdog: LoopWatchdog,
        commands: HeartbeatCommands,
    ) -> None:
        self._options = options
        self._tasks = tasks
        self._lease = lease
        self._choice = choice
        self._callbacks = callbacks
        self._watchdog = watchdog
        self._commands = commands
        self._pause_s = options.lease_s / BEATS_A_LEASE
        self._home = asyncio.get_running_loop()
        self._away: asyncio.AbstractEventLoop | None = None  # the thread's own, once it runs
        self._stirred = asyncio.Event()
        self._worker_id = 0
        self._lease_state = LeaseState(lease, lambda: self._call_home(callbacks.fallback), self._gave_up)
        self._lines = HeartbeatLines(database, self._lease_state, self.hurry)
        self._outage = Outage("the heartbeat", lambda event: self._call_home(callbacks.emit, event))
        self._beat_at = self._look_at = 0.0
        self._emitted_at = float("-inf")

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Called in any thread: let this one call something, while it runs."""
        if self._away is not None and not self._away.is_closed():
            try:
                self._away.call_soon_threadsafe(function, *args)
            except RuntimeError:
                pass  # The thread's loop closed in this very moment: it has ended.

    def _call_home(self, function: Callable[..., object], *args: object) -> None:
        """Call something in the worker's event loop."""
        if not self._home.is_closed():
            self._home.call_soon_threadsafe(function, *args)

    # What may be called by way of `call`

    def stir(self) -> None:
        """Wake the thread: there is a command, or a beat to send."""
        self._stirred.set()

    def hurry(self) -> None:
        """Do not wait for the next beat; one that is under way is followed by another."""
        self._beat_at = 0.0
        self.stir()

    def answer(self) -> None:
        """Others ask whether this worker lives: here its connection may look well although the lock is free."""
        self._lease_state.lock_is_free()
        self.hurry()

    def stood_in(self, worker_id: int, answer: Cancelled, sent_at: float) -> None:
        """A sign of life was written over another connection: only the lease counts until this one is back."""
        self._heard(worker_id, answer, sent_at, holds=False)

    # The thread

    def run(self) -> None:
        try:
            asyncio.run(self._live())
        finally:
            self._commands.stop.set()
            self._commands.refuse_all()

    async def _live(self) -> None:
        self._away = asyncio.get_running_loop()
        self._watchdog.begin(self.stir)
        self._lease_state.tick()
        try:
            while not self._commands.stop.is_set():
                # Before the work: a request during the work gets another round.
                self._stirred.clear()
                await self._register_asked()
                await self._work()
                with anyio.move_on_after(max(self._next_at() - now_s(), 0.0)):
                    await self._stirred.wait()
        except Exception as error:  # noqa: BLE001 - a worker without a heartbeat must not continue
            said = f"its heartbeat failed: {type(error).__name__}: {error}"
            self._call_home(self._callbacks.gave_up, self._worker_id, said)
            self._call_home(self._callbacks.fail, error)
        finally:
            await self._end()

    def _next_at(self) -> float:
        if not self._worker_id:
            return float("inf")
        return min(self._beat_at, self._look_at) if self._lines.line.is_open else self._beat_at

    async def _work(self) -> None:
        if not self._worker_id:
            return
        if now_s() >= self._beat_at:
            await self._beat()
        if self._watchdog.note is not None and self._lines.line.is_open:
            await self._write_note(self._watchdog.note)
        if now_s() >= self._look_at and self._lines.line.is_open:
            await self._look()

    async def _register_asked(self) -> None:
        while self._commands.registrations:
            asked = self._commands.registrations.popleft()
            sent_at = now_s()
            options = self._options
            try:
                async with asyncio.timeout(REGISTER_S):
                    if not self._lines.line.is_open:
                        await self._lines.line.open()
                    await self._lines.line.check_release()
                    worker_id = await self._lines.line.register(
                        lease_s=options.lease_s,
                        pid=os.getpid(),
                        concurrency=options.concurrency,
                        host=socket.gethostname(),
                        tasks=self._tasks,
                        choice=self._choice,
                    )
            except (AsyncqError, TimeoutError) as error:
                self._lines.line.drop()
                if isinstance(error, SchemaTooNew):
                    self._call_home(self._callbacks.fail, error)
                _fail(asked, error if isinstance(error, AsyncqError) else StoreUnavailable(NO_ANSWER))
                continue
            self._worker_id = worker_id
            self._heard(worker_id, [], sent_at, holds=self._lines.line.held_id == worker_id)
            self._beat_at = sent_at + (self._pause_s if self._lease_state.state == "locked" else SOON_S)
            self._look_at = sent_at
            if asked.set_running_or_notify_cancel():
                asked.set_result(worker_id)

    async def _beat(self) -> None:
        worker_id, sent_at, names = self._worker_id, now_s(), self._callbacks.started()
        self._beat_at = sent_at + self._pause_s
        try:
            holds, cancelled = await self._prove(self._lines.line, worker_id, names)
        except (AsyncqError, TimeoutError) as error:
            if isinstance(error, SchemaError):
                await self._check_release()
            if not may_work_elsewhere(error) or (answer := await self._prove_elsewhere(worker_id, names)) is None:
                await self._missed(error, sent_at)
                return
            holds, cancelled = answer
        self._heard(worker_id, cancelled, sent_at, holds=holds, names=names)
        await self._check_release()

    async def _prove(self, line: HeartbeatConnection, worker_id: int, names: Sequence[str]) -> tuple[bool, Cancelled]:
        """Write a beat over a connection, which is opened if need be; returns whether it holds the lock too."""
        async with asyncio.timeout(HALF_GRACE_S if self._lease_state.state == "doubted" else self._pause_s):
            if not line.is_open:
                await line.open()
            holds = await line.hold(worker_id)
            return holds, await line.beat(worker_id, names, self._callbacks.stuck())

    async def _prove_elsewhere(self, worker_id: int, names: Sequence[str]) -> tuple[bool, Cancelled] | None:
        """Write a beat over a new connection, which may lead to a server that takes writes; None if that fails."""
        line = self._lines.another()
        try:
            answer = await self._prove(line, worker_id, names)
        except (AsyncqError, TimeoutError):
            line.drop()
            return None
        self._lines.use(line)
        return answer

    async def _check_release(self) -> None:
        """May this release go on with the schema? Without an answer: the next beat asks again."""
        try:
            async with asyncio.timeout(HALF_GRACE_S):
                await self._lines.line.check_release()
        except SchemaTooNew as error:
            self._call_home(self._callbacks.fail, error)
        except (AsyncqError, TimeoutError):
            return  # A migration may hold the table for long; a broken connection is found by the next beat.

    async def _missed(self, error: Exception, sent_at: float) -> None:
        """A sign of life was not written, or its answer was lost."""
        if is_refusal(error):
            self._lease_state.refused()
        if is_answer(error) and self._lines.line.held_id:
            await self._lines.refused(self._worker_id)
        else:
            self._lines.give_up()
        is_urgent = self._lease_state.state == "doubted" or bool(self._lines.silent)
        self._beat_at = now_s() + (SOON_S if is_urgent else min(self._pause_s, LATER_S))
        self._call_home(self._callbacks.fallback)
        failures = self._outage.failed()
        if failures == 1 or sent_at - self._emitted_at >= TELL_EVERY_S:
            self._emitted_at = sent_at
            self._emit_failure(error, self._worker_id, failures)

    def _emit_failure(self, error: Exception, worker_id: int, failures: int = 1) -> None:
        """A sign of life was not written: say why."""
        silent_s, lease_s = self._lease.silent_s, self._lease.length_s
        event = HeartbeatFailed(
            worker_id=worker_id, error=error_text(error), silent_s=silent_s, lease_s=lease_s, failures=failures
        )
        self._call_home(self._callbacks.emit, event)

    def _heard(
        self, worker_id: int, cancelled: Cancelled, sent_at: float, *, holds: bool, names: Collection[str] = ()
    ) -> None:
        """The answer to a sign of life."""
        if worker_id != self._worker_id:
            return
        if cancelled is None:
            self._worker_id = 0
            self._lease_state.lost()
            self._call_home(self._callbacks.lost, worker_id)
            return
        self._outage.over()
        if self._lease_state.proven(sent_at, holds=holds):
            self._call_home(self._callbacks.regained)
        if not holds and self._lines.drop_silent():
            self._beat_at = min(self._beat_at, now_s() + SOON_S)  # A new connection takes the lock.
        if self._lines.line.held_id and not holds:
            self._beat_at = min(self._beat_at, now_s() + SOON_S)  # The row should say that the lock counts, if it does.
        if cancelled:
            self._call_home(self._callbacks.cancelled, worker_id, cancelled)
        if names:
            self._call_home(self._callbacks.named, names)

    async def _look(self) -> None:
        sent_at = now_s()
        self._look_at = sent_at + GRACE_S
        try:
            async with asyncio.timeout(self._pause_s):
                found = await self._lines.line.watch(self._worker_id)
        except TimeoutError as error:
            await self._missed(error, sent_at)
            return
        except AsyncqError:
            self._beat_at = 0.0  # The beat finds out what is wrong, and says so.
            return
        self._lease.clocked(found.clock_s, sent_at)
        wait_s = look_in_s(found.clock_s, found.workers, found.place)
        if found.grace_left_s is not None and found.grace_left_s > -SOON_S:
            # One that was over before keeps nobody alive: the server has just returned.
            wait_s = min(wait_s, max(found.grace_left_s, 0.0) + 0.01)
        self._look_at = now_s() + wait_s
        if found.dead:
            self._call_home(self._callbacks.rescue)

    async def _write_note(self, note: Note) -> None:
        """A job blocks the worker's event loop: say so in its row."""
        sent_at = now_s()
        self._watchdog.note = None
        try:
            async with asyncio.timeout(self._pause_s):
                await self._lines.line.note_block(note.worker_id, note.job_id, note.token, note.error)
        except TimeoutError as error:
            await self._missed(error, sent_at)
        except AsyncqError:
            self._beat_at = 0.0  # As in a look.

    def _gave_up(self, reason: str) -> None:
        self._call_home(self._callbacks.gave_up, self._worker_id, reason)

    async def _end(self) -> None:
        self._watchdog.end()
        self._lease_state.leave()
        worker_id, self._worker_id = self._worker_id, 0
        commands = self._commands
        if (commands.keep_claims or commands.forget_worker) and worker_id and self._lines.line.is_open:
            try:
                async with asyncio.timeout(END_S / 2):
                    if commands.forget_worker:
                        await self._lines.line.remove(worker_id)
                    else:
                        self._lines.line.held_id = 0
                        await self._lines.line.beat(worker_id, self._callbacks.started(), self._callbacks.stuck())
            except (AsyncqError, TimeoutError) as error:
                self._emit_failure(error, worker_id)
        await self._lines.close()


def _fail(asked: concurrent.futures.Future[int], error: Exception) -> None:
    if asked.set_running_or_notify_cancel():
        asked.set_exception(error)

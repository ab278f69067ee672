"""Watches the worker's event loop from the heartbeat's thread, and names the handler that blocks it.

The thread asks the loop for an answer all the time. When none comes for too long, it reads the stack of the loop's
thread, and finds the handler in it. The thread logs that immediately, since the loop may never answer again. Observers
run in the loop, so they are called when it answers. The thread goes on with beats: a blocked loop is no dead worker.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from asyncq.domain.events import Event, LoopBlocked
from asyncq.domain.outcome import clean_error
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.records import LOGGER, job_fields, write
from asyncq.engine.run import stacks
from asyncq.engine.run.child_tasks import ChildTasks
from asyncq.engine.run.executor import Executor
from asyncq.engine.run.run import Run

TRIES = 3


class Note(msgspec.Struct, frozen=True):
    """The text to be written into the row of a job that blocks the loop."""

    worker_id: int
    job_id: int
    token: int
    error: str


class _Question:
    """Asked in the thread, answered in the loop."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.lock = threading.Lock()
        self.is_answered = False
        self.block: tuple[Run | None, str] | None = None


class LoopWatchdog:
    """The guardian of one worker's event loop, made in that loop; the heartbeat's thread writes `note` into a job."""

    def __init__(
        self,
        after_s: float | None,
        identity: Identity,
        executor: Executor,
        child_tasks: ChildTasks,
        emit: Callable[[Event], None],
    ) -> None:
        self._after_s = after_s
        self._identity = identity
        self._executor = executor
        self._child_tasks = child_tasks
        self._emit = emit
        self._home = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self.note: Note | None = None
        # From here on: of the heartbeat's thread alone.
        self._question: _Question | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, noted: Callable[[], None]) -> None:
        """Watch from now on in the event loop of the calling thread, where `noted` is called when there is a note."""
        _all.append(self)
        if self._after_s is not None:
            self._next(noted, self._after_s / 2)

    def end(self) -> None:
        """Watch no more; called in the thread."""
        _all.remove(self)
        if self._timer is not None:
            self._timer.cancel()

    def _next(self, noted: Callable[[], None], pause_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._look, noted, time.monotonic() + pause_s)

    def _look(self, noted: Callable[[], None], due_at: float) -> None:
        assert self._after_s is not None
        now, pause_s = time.monotonic(), self._after_s / 2
        asked = self._question
        if asked is None or asked.is_answered:
            self._ask(now)
        elif now - due_at > pause_s:
            # This thread did not run either: the process was stopped, or the machine asleep. Nobody is to blame.
            asked.asked_at = now
        elif asked.block is None and now - asked.asked_at >= self._after_s:
            self._blocked(asked, now)
            if self.note is not None:
                noted()
        elif asked.block is None:
            pause_s = min(pause_s, asked.asked_at + self._after_s - now)
        self._next(noted, max(pause_s, 0.001))

    def _ask(self, now: float) -> None:
        self._question = _Question(now)
        if not self._home.is_closed():
            try:
                self._home.call_soon_threadsafe(self._answer, self._question)
            except RuntimeError:
                pass  # The loop closed in this very moment: there is nothing left to watch.

    def _answer(self, question: _Question) -> None:
        """Called in the loop, as soon as it can."""
        with question.lock:
            question.is_answered = True
        if question.block is not None:
            run, stack = question.block
            event = LoopBlocked(
                worker_id=self._identity.worker_id,
                blocked_s=time.monotonic() - question.asked_at,
                job_id=None if run is None else run.claim.id,
                task=None if run is None else run.task.name,
                stack=stack,
            )
            self._emit(event)

    def _blocked(self, question: _Question, now: float) -> None:
        with question.lock:
            if question.is_answered:
                return
            task, stack = self._where()
            if task is None and stacks.is_in_loop(self._thread_id):
                return  # It is about to answer: a busy machine has not let it.
            run = self.run_of(task)
            others = [other for other in list(_all) if other is not self and other._home is self._home]
            if run is None and any(other.run_of(task) is not None for other in others):
                return  # A handler of another worker in this loop, which reports it itself.
            question.block = run, stack
        silent_s = now - question.asked_at
        if run is not None:
            said = f"LoopBlocked: the event loop has not answered for {silent_s:.1f} s\n\n{stack}"
            self.note = Note(run.worker_id, run.claim.id, run.claim.token, clean_error(said))
        # In a thread of its own: the loop may be blocked in a handler of the log, and the heartbeats must continue.
        threading.Thread(
            target=_warn, args=(self._identity.worker_id, silent_s, run, stack), name="asyncq guardian", daemon=True
        ).start()

    def _where(self) -> tuple[asyncio.Task[Any] | None, str]:
        """The task that the loop runs, and where it is; looked at again if it went on meanwhile."""
        task, stack = None, stacks.UNKNOWN
        for _ in range(TRIES):
            task = asyncio.current_task(self._home)
            stack = stacks.of_thread(self._thread_id)
            if task is asyncio.current_task(self._home):
                break
        return task, stack

    def blocking(self) -> Run | None:
        """The job of this worker whose handler the loop is in at this moment; in any thread."""
        return self.run_of(self._where()[0])

    def run_of(self, task: asyncio.Task[Any] | None) -> Run | None:
        """The job of this worker whose handler an asyncio task is, or whose handler has started it; in any thread."""
        if task is None:
            return None
        # The copy is made in one step of the interpreter.
        for run in list(self._executor.running):
            if run.handler is task:
                return run
        found = self._child_tasks.job_of(task)
        return found if isinstance(found, Run) else None


# Without a lock, which a forked child could find locked for ever: each use is one step of the interpreter.
_all: list[LoopWatchdog] = []


def _warn(worker_id: int, silent_s: float, run: Run | None, stack: str) -> None:
    fields: dict[str, Any] = {"asyncq_event": "LoopBlocked"}
    who = "code that is not one of its handlers"
    if run is not None:
        claim, task = run.claim, run.task.name
        who = f"job {claim.id} ({task}, attempt {claim.attempts + 1} of {claim.max_attempts})"
        fields |= job_fields(claim, task, worker_id)
    template = "the event loop of worker %s has not answered for %.1f s, blocked by %s: %s"
    write(LOGGER, logging.WARNING, template, (worker_id, silent_s, who, stack.strip()), fields)

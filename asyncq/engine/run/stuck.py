"""Handlers that still run although they were cancelled: each is reported, and another job loop replaces its own.

It keeps its claim and its serial queue until it ends. Then it is settled as usual, and its own job loop ends.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import CapacityLimiter

from asyncq.domain.events import HandlerStuck, TooManyStuck
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.run import stacks
from asyncq.engine.run.run import Run

STUCK_S = 5.0  # how long a cancelled handler may take to end


class Stuck:
    """The stuck handlers of one worker; at `limit` it fetches nothing. A stuck thread is not one of `threads`."""

    def __init__(
        self,
        limit: int,
        identity: Identity,
        threads: CapacityLimiter,
        observers: Observers,
        *,
        replace: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._limit = limit
        self._identity = identity
        self._threads = threads
        self._observers = observers
        self._replace = replace
        self._changed = changed
        self._timers: dict[Run, asyncio.TimerHandle] = {}
        self._stuck: set[Run] = set()
        self._in_threads: set[Run] = set()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self._stuck) >= self._limit

    def ids(self) -> list[int]:
        """The ids of the jobs; may be called in any thread."""
        # The copy is one step of the interpreter.
        return sorted(claim.id for run in list(self._stuck) for claim in run.claims)

    def watch(self, run: Run) -> None:
        """Watch a handler that was just cancelled: it has `STUCK_S` to end."""
        if self._is_closed or run.handler is None:
            return
        self._look_later(run)
        run.handler.add_done_callback(partial(self._ended, run))

    def close(self) -> None:
        """Watch no handler any more: the worker has stopped waiting for them, or has failed."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _look_later(self, run: Run) -> None:
        loop = asyncio.get_running_loop()
        self._timers[run] = loop.call_later(STUCK_S, self._look, run, loop.time() + STUCK_S)

    def _look(self, run: Run, due_at: float) -> None:
        del self._timers[run]
        if run.handler is None or run.handler.done():
            return
        if asyncio.get_running_loop().time() - due_at > STUCK_S / 2:
            # The event loop was blocked: the handler may have had no turn to end.
            self._look_later(run)
            return
        self._stuck.add(run)
        stack = stacks.of_thread(run.thread_id) if run.in_thread else stacks.of_task(run.handler)
        self._observers.emit(run.event(HandlerStuck, stuck_s=STUCK_S, stack=stack))
        if len(self._stuck) <= self._limit:
            run.is_replaced = True
            if run.in_thread:
                self._in_threads.add(run)
                self._threads.total_tokens += 1
            self._replace()
        if len(self._stuck) == self._limit:
            self._observers.emit(TooManyStuck(worker_id=self._identity.worker_id, job_ids=tuple(self.ids())))
        self._changed()

    def _ended(self, run: Run, _: asyncio.Task[Any]) -> None:
        if (timer := self._timers.pop(run, None)) is not None:
            timer.cancel()
        if run in self._in_threads:
            self._in_threads.remove(run)
            self._threads.total_tokens -= 1
        if run in self._stuck:
            self._stuck.remove(run)
            self._changed()

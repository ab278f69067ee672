"""Collects claims of tasks with `collect` for one call of their handler.

The claims wait in lists of the buffer, so that a cancellation, a shutdown or the loss of the worker's id takes them out
like any others. Only one job loop waits for more jobs of a task; the others add what they take to its list.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from asyncq.domain.events import JobsCollected
from asyncq.domain.job import Claim
from asyncq.domain.many import Collect, may_be_collected
from asyncq.domain.task import Registry
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.buffer import Buffer
from asyncq.engine.liveness.start_gate import has_to_be_named

GIVE_WAY_S = 0.02  # a claim of another task that waits for longer needs the slot of the call


class _Call:
    """A call that waits for more jobs; `scope` ends the wait."""

    def __init__(self, claims: list[Claim]) -> None:
        self.claims = claims
        self.scope = anyio.CancelScope()


class Collector:
    """The collector of one worker; `is_last` says that no more jobs are coming, because it runs once."""

    def __init__(
        self, identity: Identity, buffer: Buffer, observers: Observers, *, is_last: Callable[[], bool]
    ) -> None:
        self._identity = identity
        self._buffer = buffer
        self._observers = observers
        self._is_last = is_last
        self._waiting: dict[int, _Call] = {}  # by the id of the task

    def rule_of(self, claim: Claim) -> Collect | None:
        """How jobs like this one are collected; None if each has a call of its own."""
        return self._identity.task(claim.task_id).collect

    async def collect(self, claim: Claim, rule: Collect) -> list[Claim]:
        """The claims of one call, with this one, once it starts; none if they were taken out, or join another call.

        If cancelled, they stay where the end of the worker finds them.
        """
        if not _may_be_collected(claim):
            return [claim]
        task_id, began_at = claim.task_id, loop_time()
        if (other := self._waiting.get(task_id)) is not None:
            other.claims.append(claim)
            if len(other.claims) >= rule.max:
                del self._waiting[task_id]
                other.scope.cancel()
            return []
        call = self._waiting[task_id] = _Call(self._buffer.set_aside())
        call.claims.append(claim)
        try:
            with anyio.move_on_after(rule.within_s), call.scope:
                await self._fill(call, task_id, rule.max)
        finally:
            if self._waiting.get(task_id) is call:
                del self._waiting[task_id]
        self._buffer.end_aside(call.claims)
        self._report(task_id, call.claims, loop_time() - began_at)
        return call.claims

    async def _fill(self, call: _Call, task_id: int, most: int) -> None:
        """Take claims of the task until the call is full, the buffer is closed, or another claim needs this slot."""
        buffer = self._buffer
        while True:
            call.claims += buffer.extract(partial(_joins, task_id), most - len(call.claims))
            if len(call.claims) >= most or buffer.is_closed:
                return
            other = buffer.first
            if other is not None:
                buffer.pass_on()
                await asyncio.sleep(GIVE_WAY_S)
                if buffer.first is other:
                    return
            elif self._is_last():
                return
            else:
                await buffer.wait()

    def hurry(self) -> bool:
        """Let the calls that wait start, because no more jobs are due; returns whether there are any."""
        for call in self._waiting.values():
            call.scope.cancel()
        return bool(self._waiting)

    def _report(self, task_id: int, claims: Sequence[Claim], waited_s: float) -> None:
        if claims and self._observers.wanted(JobsCollected):
            job_ids = tuple(claim.id for claim in claims)
            task = self._identity.task(task_id).name
            self._observers.emit(JobsCollected(task=task, job_ids=job_ids, waited_s=waited_s))


def _may_be_collected(claim: Claim) -> bool:
    """Whether a job may share a call; one that has to be named by a beat before it starts runs alone."""
    return may_be_collected(claim) and not has_to_be_named(claim)


def _joins(task_id: int, claim: Claim) -> bool:
    return claim.task_id == task_id and _may_be_collected(claim)


def collects(registry: Registry) -> bool:
    """Whether a worker of these tasks needs a collector."""
    return any(task.collect is not None for task in registry.values())

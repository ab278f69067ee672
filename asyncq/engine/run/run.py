"""One run of a job, from its start until its settlement is written."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from asyncq.domain.job import Claim
from asyncq.domain.task import Task
from asyncq.engine.run.context import JobContext, settling_of
from asyncq.engine.run.transactions import Settling


class Run(msgspec.Struct, eq=False):
    """A job that runs now.

    Attributes:
        claim: Its claim.
        task: Its task.
        worker_id: The worker's id under which it was claimed.
        context: Its context.
        handler: The asyncio task of the handler, once it was created.
        cancelled: Whether its job was cancelled.
        interrupted: Whether the worker cancelled it.
        in_thread: Whether its thread runs, which cannot be cancelled.
        thread_id: That thread, once it has begun.
        error: The exception of its handler, if the run failed; released when observers were called.
        is_waiting: Whether its handler waits for a beat before it begins: no beat names it meanwhile.
        is_replaced: Whether it is stuck, and another job loop has taken the place of its own.
        started_at: When, on the performance counter.
        ended_at: When, likewise, once it has.
    """

    claim: Claim
    task: Task[...]
    worker_id: int
    context: JobContext | None = None
    handler: asyncio.Task[Any] | None = None
    cancelled: bool = False
    interrupted: bool = False
    in_thread: bool = False
    thread_id: int = 0
    is_waiting: bool = False
    is_replaced: bool = False
    error: BaseException | None = None
    started_at: float = msgspec.field(default_factory=time.perf_counter)
    ended_at: float = 0.0

    @property
    def duration_s(self) -> float:
        """How long it took, once it has ended."""
        return self.ended_at - self.started_at

    @property
    def settling(self) -> Settling | None:
        """How its handler settles it; None as long as the handler has no say in that."""
        return settling_of(self.context)

    def tell(self) -> None:
        """Let the handler know that it should finish soon."""
        if self.context is not None:
            self.context.cancelled.set()

    def cancel(self) -> None:
        """Cancel the handler, once; a thread cannot be cancelled, and its job runs as long as it does."""
        self.tell()
        if not self.interrupted and self.handler is not None:
            self.interrupted = True
            if not self.in_thread:
                self.handler.cancel()

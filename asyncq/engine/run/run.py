"""One run of a job, from its start until its settlement is written."""

import asyncio
import time
from typing import Any, Protocol, TypeVar

import msgspec

from asyncq.domain.around import Carried
from asyncq.domain.events import JobEvent
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Outcome, TimedOut
from asyncq.domain.task import Task
from asyncq.engine.run.handler_context import HandlerContext
from asyncq.engine.run.progress import ReportedRun
from asyncq.engine.run.time_limit import TimeLimit
from asyncq.engine.run.transactions import Settling

JobEventT = TypeVar("JobEventT", bound=JobEvent)


class Closing(Protocol):
    """The closing of the resources of a job."""

    def limit(self) -> None:
        """Limit the time that it may take from now."""


class Run(msgspec.Struct, eq=False):
    """A running job.

    Attributes:
        worker_id: The worker's id under which it was claimed.
        members: The runs of the jobs that were collected for this call of the handler; None for a run of one job.
        outcomes: The outcomes of these, if they differ.
        limit: Its time limits; None without any.
        is_kept: Whether its job is kept once it has ended, with the return value of the handler, or is awaited.
        result: That value as JSON, once it has completed; None if there is none.
        interrupted: Whether the worker cancelled it.
        timed_out: The time limit that cancelled it; None if none did.
        in_thread: Whether its thread runs, which cannot be cancelled.
        is_cancelled_later: Whether it was cancelled while its thread ran; middleware around it is cancelled after that.
        thread_id: The id of that thread, once it has begun.
        error: The exception of its handler, if the run failed; released when observers were called.
        closing: The closing of the resources of its job, while they are closed: a cancellation limits it.
        is_waiting: Whether its handler waits for a beat before it begins; beats do not name it meanwhile.
        is_replaced: Whether it is stuck, and another job loop has replaced its own.
        value: What its handler returned, unless its job is kept: a client may have begun to wait for the result.
        carried: Entered around its handler, if that runs in another process; None if no middleware runs around it.
        ended_at: The end, on the performance counter, once it has ended.
    """

    claim: Claim
    task: Task[...]
    worker_id: int
    context: HandlerContext | None = None
    limit: TimeLimit | None = None
    is_kept: bool = False
    result: str | None = None
    handler: asyncio.Task[Any] | None = None
    cancelled: bool = False
    interrupted: bool = False
    timed_out: TimedOut | None = None
    in_thread: bool = False
    is_cancelled_later: bool = False
    thread_id: int = 0
    closing: Closing | None = None
    is_waiting: bool = False
    is_replaced: bool = False
    error: BaseException | None = None
    value: Any = None
    carried: list[Carried] | None = None
    started_at: float = msgspec.field(default_factory=time.perf_counter)
    ended_at: float = 0.0
    members: tuple["Run", ...] | None = None
    outcomes: list[Outcome] | None = None

    @property
    def claims(self) -> list[Claim]:
        """Its claim, or those of the jobs that were collected for it; may be called in any thread."""
        return [self.claim] if self.members is None else [member.claim for member in self.members]

    @property
    def duration_s(self) -> float:
        """Its duration in seconds, once it has ended."""
        return self.ended_at - self.started_at

    @property
    def settling(self) -> Settling | None:
        """The settling of its handler; None until the handler takes part in it."""
        return None if self.context is None else self.context._settling  # pyright: ignore[reportPrivateUsage]

    @property
    def progress(self) -> ReportedRun | None:
        """The progress of its handler; None until the handler reports it."""
        return None if self.context is None else self.context._progress  # pyright: ignore[reportPrivateUsage]

    def results(self, outcome: Outcome) -> list[tuple["Run", Outcome]]:
        """The runs of the jobs that were collected for this call, each with its outcome, by that of the call."""
        members = self.members or ()
        if self.outcomes is not None:
            return [*zip(members, self.outcomes, strict=True)]
        for member in members:
            member.failed(self.error)
        return [(member, outcome) for member in members]

    def failed(self, error: BaseException | None) -> None:
        self.error = error

    def event(self, kind: type[JobEventT], **fields: Any) -> JobEventT:
        claim = self.claim
        return kind(claim=claim, task=self.task.name, attempt=claim.attempts + 1, worker_id=self.worker_id, **fields)

    def returned(self, value: Any) -> None:
        """Keep the value of the handler: a client may have begun to wait for it."""
        self.value = value

    def keep(self, result: str | None) -> None:
        """Keep the result until the end of the job is written."""
        self.result = result

    def ask_to_end(self) -> None:
        if self.context is not None:
            self.context.cancelled.set()

    def cancel(self) -> None:
        """Cancel the handler, once; a thread cannot be cancelled, and its job runs until the thread ends."""
        self.ask_to_end()
        if not self.interrupted and self.handler is not None:
            self.interrupted = True
            if self.closing is not None:
                self.closing.limit()
            if self.in_thread:
                self.is_cancelled_later = True
            else:
                self.handler.cancel()

    def time_out(self) -> None:
        """Cancel the handler at its hard limit, unless it was cancelled before; a thread is only asked to end."""
        if self.in_thread or self.interrupted or self.limit is None:
            self.ask_to_end()
        elif self.handler is not None and not self.handler.done():
            self.timed_out = self.limit.timed_out()
            self.cancel()

"""Runs a job: decodes the payload, calls the handler in its own task, and turns any end of it into an outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from anyio import CapacityLimiter

from asyncq.domain.events import JobStarted, ResultIgnored
from asyncq.domain.job import Claim
from asyncq.domain.outcome import (
    PAST_DEADLINE,
    Completed,
    Discarded,
    Expired,
    Failed,
    Outcome,
    RetryLater,
    TimedOut,
    clean_error,
)
from asyncq.domain.result import encode_result
from asyncq.engine.base import user_code
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.around import Around
from asyncq.engine.run.child_tasks import ChildTasks
from asyncq.engine.run.context import JobContext
from asyncq.engine.run.processes import Processes
from asyncq.engine.run.items import outcome_of_items
from asyncq.engine.run.run import Run
from asyncq.engine.run.thread import run_in_thread
from asyncq.engine.run.time_limit import time_limit_of
from asyncq.engine.run.transactions import HandlerResources, JobTransaction
from asyncq.engine.run.verdict import describe, outcome_of

COMPLETED = Completed()


class Executor:
    """Runs jobs, one for each call; `finished` counts the runs that have ended.

    `is_proven` waits for a beat before a handler begins in a process that was stopped, because a rescue may have
    returned the claim. It returns whether the handler may begin.
    """

    def __init__(
        self,
        identity: Identity,
        resources: HandlerResources,
        observers: Observers,
        threads: CapacityLimiter,
        child_tasks: ChildTasks,
        lease: Lease,
        *,
        around: Around,
        processes: Processes,
        running: set[Run],
        watch: Callable[[Run], None],
        is_proven: Callable[[], Awaitable[bool]],
    ) -> None:
        self._identity = identity
        self._resources = resources
        self._observers = observers
        self._threads = threads
        self._told_results: set[str] = set()
        self._child_tasks = child_tasks
        self._lease = lease
        self._stopping = False
        self._processes = processes
        self._watch = watch
        self._is_proven = is_proven
        self.running = running
        self.finished = 0
        self._wrapped = around.wrapped(identity.registry, self._handle)

    def start(self, claim: Claim) -> tuple[Run, Outcome | None]:
        """Start a job, and return the run, and its outcome if it has ended already; else await `end`.

        It never raises because of a handler; a KeyboardInterrupt that came from a real SIGINT continues.
        """
        run = self._make_run(claim)
        if claim.expires_at is not None and run.started_at >= claim.expires_at:
            self.finished += 1
            return run, Expired()
        if claim.deadline_at is not None and run.started_at >= claim.deadline_at:
            self.finished += 1
            return run, Discarded(PAST_DEADLINE)
        if self._observers.wanted(JobStarted):
            self._observers.emit(JobStarted(claim=claim, task=run.task.name, attempt=claim.attempts + 1))
        try:
            args, kwargs = run.task.signature.decode(claim.payload, run.context)
        except user_code.USERS_ERRORS as error:
            self.finished += 1
            run.error = error
            if isinstance(error, msgspec.MsgspecError | RecursionError):
                return run, Failed(clean_error(f"{type(error).__name__}: the payload does not fit the task: {error}"))
            return run, Failed(describe(error))  # The payload's type raised it.
        self.running.add(run)
        if self._stopping:
            run.ask_to_end()
        try:
            variables = self._child_tasks.mark(run.task.name, run)
            handle = self._handle if self._wrapped is None else self._wrapped.get(run.task.name, self._handle)
            handler = user_code.start(variables, handle, (run, args, kwargs))
            # Most have ended by now, if Python starts tasks eagerly.
            if run.settling is not None or not user_code.has_ended(handler):
                run.handler = handler
                if run.limit is not None and not handler.done():
                    run.limit.start(run.ask_to_end, partial(self._cancel, run, run.time_out))
                return run, None
            end = handler.result()
            outcome = COMPLETED if end is None else self._outcome_of(run, end)
        except BaseException:
            self._leave(run)
            raise
        self._leave(run)
        return run, outcome

    async def end(self, run: Run) -> Outcome:
        """Wait for the end of a run that `start` returned without an outcome, and return the outcome.

        If cancelled, the handler continues: use `Run.cancel` to stop it.
        """
        if run.handler is None:
            raise ValueError(f"job {run.claim.id} does not run")
        try:
            end = await user_code.end_of(run.handler)
            outcome = self._outcome_of(run, end)
            if run.settling is not None:
                error = end.error if isinstance(end, user_code.Raised) else run.error  # that of items, if they failed
                outcome = await run.settling.end(outcome, error)
            return outcome
        except BaseException:
            if isinstance(run.settling, JobTransaction):
                run.settling.abandon()
            raise
        finally:
            self._leave(run)

    def _leave(self, run: Run) -> None:
        """Remove a run that has ended, or whose waiter was cancelled."""
        self.finished += 1
        if run.handler is None or run.handler.done():
            if run.limit is not None:
                run.limit.stop()
            self.running.discard(run)
            # Its context refers back to the run: held here, each job would wait for the garbage collector.
            run.handler = None

    def _make_run(self, claim: Claim) -> Run:
        task, worker_id = self._identity.task(claim.task_id), self._identity.worker_id
        limit = None
        if task.timeout is not None or claim.extras is not None or claim.deadline_at is not None:
            limit = time_limit_of(task, claim)
        is_kept = self._identity.is_kept(claim)
        if not task.signature.takes_context:
            return Run(claim, task, worker_id, limit=limit, is_kept=is_kept)
        resources = self._resources
        settling = None
        if task.isolation is not None:
            settling = JobTransaction(resources, claim, task.name, worker_id, task.isolation)
        context = JobContext(claim, task.name, worker_id, self._identity.registry, resources, settling, limit=limit)
        return Run(claim, task, worker_id, context, limit, is_kept)

    async def _handle(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler, settling = run.task.handler, run.settling
        if isinstance(settling, JobTransaction):
            await settling.begin()
        # Checked here, because the process may have been stopped since the job was started.
        if not self._lease.is_fresh:
            await self._prove(run)
        if run.task.signature.is_async:
            return await handler(*args, **kwargs)
        if run.task.address is not None:
            return await self._processes.call(run, run.task.address)
        return await run_in_thread(run, partial(handler, *args, **kwargs), self._threads)

    async def _prove(self, run: Run) -> None:
        run.is_waiting = True
        try:
            may_begin = await self._is_proven()
        finally:
            run.is_waiting = False
        if not may_begin:
            run.interrupted = True
            raise asyncio.CancelledError

    def _outcome_of(self, run: Run, end: Any) -> Outcome:
        if isinstance(end, user_code.Raised):
            error = end.error
            try:
                outcome = outcome_of(error, interrupted=run.interrupted, timed_out=run.timed_out)
            except user_code.USERS_ERRORS as broken:  # of a subclass of RetryAfter, Snooze or Discard
                outcome, error = Failed(describe(broken)), broken
            if isinstance(outcome, Failed | TimedOut | RetryLater | Discarded):
                run.error = error
            return outcome
        if end is None:
            return COMPLETED
        if run.task.items:
            return self._outcome_of_items(run, end)
        if run.is_kept:
            with suppress(*user_code.USERS_ERRORS):  # of a type that cannot be encoded
                return Completed(encode_result(end))
        if run.task.name not in self._told_results:
            self._told_results.add(run.task.name)
            self._observers.emit(run.event(ResultIgnored, type_name=type(end).__name__))
        return COMPLETED

    def _outcome_of_items(self, run: Run, returned: Any) -> Outcome:
        try:
            outcome, run.error = outcome_of_items(returned, run.claim.payload)
        except user_code.USERS_ERRORS as broken:  # of a subclass of RetryAfter, Snooze or Discard
            outcome, run.error = Failed(describe(broken)), broken
        return outcome

    def ask_all_to_end(self) -> None:
        """Tell all handlers, also those that start later, that they should end soon."""
        self._stopping = True
        for run in self.running:
            run.ask_to_end()

    def cancel_jobs(self, jobs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Cancel the handlers of these jobs, by id and token, that run here, and return the jobs."""
        found: set[tuple[int, int]] = set()
        for run in self.running:
            if (job := (run.claim.id, run.claim.token)) in jobs:
                found.add(job)
                run.cancelled = True
                self._cancel(run, run.cancel)
        return found

    def cancel_all(self) -> list[Run]:
        runs = list(self.running)
        for run in runs:
            self._cancel(run, run.cancel)
        return runs

    def _cancel(self, run: Run, cancel: Callable[[], None]) -> None:
        before = run.interrupted
        cancel()
        if run.interrupted and not before:
            self._watch(run)

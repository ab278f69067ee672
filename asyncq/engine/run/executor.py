"""Runs a job: decodes the payload, calls the handler in its own task, and turns any end of it into an outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec
from anyio import CapacityLimiter

from asyncq.domain.codec import open_claim
from asyncq.domain.envelope import MARK
from asyncq.domain.errors import CodecFailed, TaskError
from asyncq.domain.events import JobStarted, ResultIgnored
from asyncq.domain.job import Claim
from asyncq.domain.many import errors_of
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
    error_line,
)
from asyncq.domain.time_limit import NO_EXTRAS, Extras, read_extras
from asyncq.engine.base import user_code
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.around import Around
from asyncq.engine.run.child_tasks import ChildTasks
from asyncq.engine.run.context import JobContext
from asyncq.engine.run.items import outcome_of_items
from asyncq.engine.run.jobs_context import JobsContext
from asyncq.engine.run.processes import Processes
from asyncq.engine.run.results import Results
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
        results: Results,
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
        self._results = results
        self._watch = watch
        self._is_proven = is_proven
        self.running = running
        self.finished = 0
        self._wrapped = around.wrapped(identity.registry, self._handle)

    def start(self, claim: Claim) -> tuple[Run, Outcome | None]:
        """Start a job, and return the run, and its outcome if it has ended already; else await `end`.

        It never raises because of a handler; a KeyboardInterrupt that came from a real SIGINT continues.
        """
        claim, fault = self._opened(claim)
        run = self._make_run(claim)
        if (outcome := self._announce(run)) is not None:
            return run, outcome
        try:
            if fault is not None:
                raise fault
            args, kwargs = run.task.signature.decode(claim.payload, run.context)
        except user_code.USERS_ERRORS as error:
            return run, self._misfit(run, error)
        return run, self._launch(run, args, kwargs)

    def start_call(self, claims: Sequence[Claim]) -> tuple[Run | None, Outcome | None, list[tuple[Run, Outcome]]]:
        """Start one call of a handler that collects, for these jobs.

        Returns the run of the call, None if no job can start; its outcome if it has ended already, else await `end`;
        and the runs that have ended without a call, each with its outcome. `Run.results` has those of the others.
        """
        members, values = list[Run](), list[Any]()
        ended: list[tuple[Run, Outcome]] = []
        for claim, fault in map(self._opened, claims):
            task, is_kept = self._identity.task(claim.task_id), self._is_kept(claim, extras_in(claim))
            member = Run(claim, task, self._identity.worker_id, is_kept=is_kept)
            if (outcome := self._announce(member)) is None:
                try:
                    if fault is not None:
                        raise fault
                    values.append(member.task.signature.decode_member(claim.payload))
                except user_code.USERS_ERRORS as error:
                    outcome = self._misfit(member, error)
            if outcome is None:
                members.append(member)
            else:
                ended.append((member, outcome))
        if not members:
            return None, None, ended
        call = self._make_call(members)
        args, kwargs = call.task.signature.arguments((values,), call.context)
        return call, self._launch(call, args, kwargs), ended

    def _opened(self, claim: Claim) -> tuple[Claim, CodecFailed | None]:
        """A claim with clear texts, and why its payload cannot be decoded, if so."""
        if claim.last_error is None and not claim.payload.startswith(MARK):
            return claim, None
        return open_claim(self._resources.database.envelopes, self._identity.task(claim.task_id).name, claim)

    def _announce(self, run: Run) -> Outcome | None:
        """Report that a job starts, or return its outcome if it may not."""
        claim = run.claim
        if claim.expires_at is not None and run.started_at >= claim.expires_at:
            self.finished += 1
            return Expired()
        if claim.deadline_at is not None and run.started_at >= claim.deadline_at:
            self.finished += 1
            return Discarded(PAST_DEADLINE)
        if self._observers.wanted(JobStarted):
            self._observers.emit(run.event(JobStarted))
        return None

    def _misfit(self, run: Run, error: BaseException) -> Outcome:
        """The outcome of a run whose payload could not be decoded."""
        self.finished += 1
        run.error = error
        if isinstance(error, msgspec.MsgspecError | RecursionError):
            return Failed(clean_error(f"{type(error).__name__}: the payload does not fit the task: {error}"))
        if isinstance(error, CodecFailed):
            return Failed(error_line(error))
        return Failed(describe(error))  # The payload's type raised it.

    def _launch(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome | None:
        """Call the handler; its outcome if it has ended already."""
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
                return None
            end = handler.result()
            outcome = COMPLETED if end is None else self._outcome_of(run, end)
        except BaseException:
            self._leave(run)
            raise
        self._leave(run)
        return outcome

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
        self.finished += 1 if run.members is None else len(run.members)
        if run.handler is None or run.handler.done():
            if run.limit is not None:
                run.limit.stop()
            self.running.discard(run)
            # Its context refers back to the run: held here, each job would wait for the garbage collector.
            run.handler = None

    def _make_run(self, claim: Claim) -> Run:
        task, worker_id = self._identity.task(claim.task_id), self._identity.worker_id
        limit = None
        extras = extras_in(claim)
        if task.timeout is not None or claim.extras is not None or claim.deadline_at is not None:
            limit = time_limit_of(task, claim, extras)
        is_kept = self._is_kept(claim, extras)
        if not task.signature.takes_context:
            return Run(claim, task, worker_id, limit=limit, is_kept=is_kept)
        resources = self._resources
        settling = None
        if task.isolation is not None:
            settling = JobTransaction(resources, claim, task.name, worker_id, task.isolation)
        context = JobContext(claim, task.name, worker_id, self._identity.registry, resources, settling, limit=limit)
        return Run(claim, task, worker_id, context, limit, is_kept)

    def _is_kept(self, claim: Claim, extras: Extras) -> bool:
        """Whether the result of a job is stored: it is kept, a client waits for it, or it is passed on."""
        return extras.watchers is not None or extras.passed or self._identity.is_kept(claim, extras)

    def _make_call(self, members: Sequence[Run]) -> Run:
        """The run of a call for collected jobs: the limits are those of the task, or of a job that is alone in it."""
        first = members[0]
        call = Run(first.claim, first.task, first.worker_id, members=tuple(members))
        call.limit = time_limit_of(first.task, first.claim, extras_in(first.claim))
        if first.task.signature.takes_context:
            registry, claims = self._identity.registry, call.claims
            call.context = JobsContext(
                claims, first.task.name, first.worker_id, registry, self._resources, limit=call.limit
            )
        return call

    async def _handle(self, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler, settling = run.task.handler, run.settling
        if isinstance(settling, JobTransaction):
            await settling.begin()
        # Checked here, because the process may have been stopped since the job was started.
        if not self._lease.is_fresh or run.claim.start_by is not None:
            await self._prove(run)
        if run.task.signature.is_async:
            return await handler(*args, **kwargs)
        if run.task.address is not None:
            return await self._processes.call(run, run.task.address)
        return await run_in_thread(run, partial(handler, *args, **kwargs), self._threads)

    async def _prove(self, run: Run) -> None:
        run.is_waiting = True
        try:
            may_begin = self._lease.is_fresh or await self._is_proven()
        finally:
            run.is_waiting = False
        # Other handlers may have kept the loop from running. Collected jobs wait on purpose.
        start_by = None if run.members is not None else run.claim.start_by
        if not may_begin or (start_by is not None and now_s() > start_by):
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
        if run.members is not None:
            return self._outcomes_of_members(run, run.members, end)
        if run.is_kept:
            return self._results.written(run, end)
        if run.task.name not in self._told_results:
            self._told_results.add(run.task.name)
            self._observers.emit(run.event(ResultIgnored, type_name=type(end).__name__))
        if isinstance(run.settling, JobTransaction):
            # Only its row says whether a client waits for the job.
            return self._results.written(run, end, tells=False)
        run.returned(end)
        return COMPLETED

    def _outcome_of_items(self, run: Run, returned: Any) -> Outcome:
        try:
            outcome, run.error = outcome_of_items(returned, run.claim.payload, partial(self._stored, run))
        except user_code.USERS_ERRORS as broken:  # of a codec, or a subclass of RetryAfter, Snooze or Discard
            outcome, run.error = Failed(describe(broken)), broken
        return outcome

    def _outcomes_of_members(self, run: Run, members: Sequence[Run], returned: Any) -> Outcome:
        """The outcome of a call that has returned outcomes for its jobs; `run.outcomes` are those of the jobs."""
        try:
            errors = errors_of(returned, len(members), "jobs")
        except TaskError as error:
            run.error = error
            return Failed(error_line(error))
        run.outcomes = [
            self._outcome_of(member, value if error is None else user_code.Raised(error))
            for member, error, value in zip(members, errors, returned, strict=True)
        ]
        return COMPLETED

    def _stored(self, run: Run, text: str) -> str:
        """The payload of the next run as it is stored: a codec may encode it."""
        envelopes = self._resources.database.envelopes
        return text if envelopes is None else envelopes.seal_rest(run.task.name, text)

    def ask_all_to_end(self) -> None:
        """Tell all handlers, also those that start later, that they should end soon."""
        self._stopping = True
        for run in self.running:
            run.ask_to_end()

    def cancel_jobs(self, jobs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Cancel the handlers of these jobs, by id and token, that run here, and return the jobs."""
        found: set[tuple[int, int]] = set()
        for run in self.running:
            asked = [each for each in run.members or (run,) if (each.claim.id, each.claim.token) in jobs]
            for each in asked:
                found.add((each.claim.id, each.claim.token))
                each.cancelled = True
            # A call goes on for the others of its jobs.
            if asked and all(each.cancelled for each in run.members or (run,)):
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


def extras_in(claim: Claim) -> Extras:
    """The options of a claimed job that few jobs have."""
    return NO_EXTRAS if claim.extras is None else read_extras(claim.extras)

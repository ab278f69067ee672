"""Reports and counts the ends of jobs after they were committed, and calls `on_discarded`."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, assert_never

from asyncq.domain.events import (
    ItemsFailed,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobEvent,
    JobExpired,
    JobInterrupted,
    JobLost,
    JobRetried,
    JobSnoozed,
    JobTimedOut,
    ObserverFailed,
    TransactionAborted,
    carrying,
)
from asyncq.domain.outcome import (
    Aborted,
    Completed,
    Discarded,
    Expired,
    Failed,
    Interrupted,
    Outcome,
    RetryLater,
    Returned,
    Settlement,
    Snoozed,
    TimedOut,
    error_line,
    rest_of,
)
from asyncq.engine.base import user_code
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.run import Run
from asyncq.engine.tally import Tally


class Reporter:
    """Reports the ends of one worker's jobs, and counts completed jobs, failed attempts and returned claims."""

    def __init__(self, observers: Observers, start_soon: Callable[..., object], tally: Tally) -> None:
        self._tally = tally
        self._observers = observers
        self._start_soon = start_soon
        self.completed = 0
        self.failed = 0
        self.returned = 0
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def quiet(self) -> None:
        """Wait until no `on_discarded` runs."""
        await self._quiet.wait()

    def ended_well(self, runs: Collection[Run]) -> None:
        self.completed += len(runs)
        self._tally.ended_well(runs)
        if self._observers.wanted(JobCompleted):
            for run in runs:
                self._emit(JobCompleted, run, duration_s=run.duration_s)

    def settled(self, run: Run | None, settlement: Settlement, outcome: Outcome) -> None:
        self._settled(run, settlement, outcome)
        _release(run)

    def _settled(self, run: Run | None, settlement: Settlement, outcome: Outcome) -> None:
        if (rest := rest_of(outcome)) is not None:
            self._emit(ItemsFailed, run, failed=rest.failed, total=rest.total)
        match outcome:
            case Completed():
                self.ended_well([run] if run is not None else [])
            case Failed() | Discarded():
                self._attempt_failed(run, settlement)
            case TimedOut(timeout_s=timeout_s):
                self._emit(JobTimedOut, run, duration_s=_took_s(run), timeout_s=timeout_s)
                self._attempt_failed(run, settlement)
            case RetryLater() | Interrupted() | Aborted() | Snoozed() if settlement.attempts:
                self._attempt_failed(run, settlement)
            case Snoozed(delay_s) | RetryLater(delay_s=delay_s):
                self._tally.ended(run, "snoozed")
                self._emit(JobSnoozed, run, delay_s=delay_s)
            case Interrupted():
                self._emit(JobInterrupted, run)
            case Aborted(error):
                self._emit(TransactionAborted, run, error=error, delay_s=settlement.delay_s or 0.0)
            case Returned() | Expired():
                self.returned += 1
            case _:
                assert_never(outcome)

    def cancelled(self, run: Run | None, settlement: Settlement, outcome: Outcome) -> None:
        """Report a job that ended as cancelled; a claim that did not start was reported as returned."""
        if type(outcome) is Expired:
            self._emit(JobExpired, run)
        else:
            self._tally.ended(run, "cancelled")
            self._emit(JobCancelled, run, duration_s=_took_s(run), error=settlement.error or "")
        _release(run)

    def lost(self, run: Run | None) -> None:
        """Report a refused settlement: the worker no longer held the claim."""
        self._emit(JobLost, run)
        _release(run)

    def _attempt_failed(self, run: Run | None, settlement: Settlement) -> None:
        self.failed += 1
        self._tally.ended(run, "discarded" if settlement.discarded else "retried")
        error, duration_s = settlement.error or "", _took_s(run)
        if not settlement.discarded:
            self._emit(JobRetried, run, duration_s=duration_s, error=error, delay_s=settlement.delay_s or 0.0)
            return
        self._emit(JobDiscarded, run, duration_s=duration_s, error=error)
        if run is not None and (on_discarded := run.task.on_discarded) is not None:
            event = run.event(JobDiscarded, duration_s=duration_s, error=error)
            self._calls += 1
            self._quiet.clear()
            self._start_soon(self._call_on_discarded, on_discarded, event, run.error)

    async def _call_on_discarded(
        self, on_discarded: Callable[[JobDiscarded], Any], event: JobDiscarded, exception: BaseException | None
    ) -> None:
        """Call a function of the user; an error in it is reported, and has no other effect."""
        try:
            with carrying(event, exception):
                end = await user_code.call(on_discarded, event)
            if isinstance(end, user_code.Raised):
                name = f"on_discarded of {event.task}"
                failed = ObserverFailed(observer=name, event=JobDiscarded.__name__, error=error_line(end.error))
                self._observers.emit(failed, end.error)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    def _emit(self, kind: type[JobEvent], run: Run | None, **fields: Any) -> None:
        if run is not None and self._observers.wanted(kind):
            self._observers.emit(run.event(kind, **fields), run.error)


def _release(run: Run | None) -> None:
    """Drop the result, and the exception: its traceback keeps the frames of the handler and their values alive."""
    if run is not None:
        run.error = run.value = None


def _took_s(run: Run | None) -> float:
    return run.duration_s if run is not None else 0.0

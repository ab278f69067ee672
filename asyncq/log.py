"""The observer that writes every log sentence. INFO: a human acts or is reassured. Never a payload or a key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from asyncq.domain import events as on
from asyncq.domain.sentence import plain

logger = logging.getLogger("asyncq")

EventT = TypeVar("EventT", bound=on.Event)
_Entry = tuple[type[on.Event], tuple[int, Callable[[Any], str]]]

_QUIET: tuple[type[on.Event], ...] = (
    on.JobsFetched,
    on.JobStarted,
    on.JobCompleted,
    on.JobSnoozed,
)


class LogObserver:
    """Writes events to the logger `asyncq`; those of every job only when DEBUG is on at the start."""

    @property
    def wants(self) -> Collection[type[on.Event]]:
        """All events that have a sentence at the logger's level."""
        loud = [kind for kind in _SENTENCES if kind not in _QUIET]
        return [*loud, *_QUIET] if logger.isEnabledFor(logging.DEBUG) else loud

    def __call__(self, event: on.Event, /) -> None:
        """Write one event."""
        level, sentence = _SENTENCES[type(event)]
        fields: dict[str, Any] = {"event": type(event).__name__}
        if isinstance(event, on.JobEvent):
            fields |= {"job_id": event.claim.id, "task": event.task, "attempt": event.attempt}
        error = event.error if isinstance(event, on.ObserverFailed | on.WorkerCrashed) else None
        logger.log(level, "%s", plain(sentence(event)), extra=fields, exc_info=error)


def _job(event: on.JobEvent) -> str:
    return f"job {event.claim.id} ({event.task}, attempt {event.attempt} of {event.claim.max_attempts})"


def _ids(ids: Collection[int]) -> str:
    return _names([str(number) for number in ids])


def _names(names: Collection[str], most: int = 10) -> str:
    shown = ", ".join(list(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _first_line(error: str) -> str:
    return error.partition("\n")[0]


def _blame(event: on.HorizonHeld) -> str:
    hidden = "" if event.sees_all else "; what other roles do is hidden: grant pg_read_all_stats to the worker's"
    if event.holders:
        return f"they cannot be removed because of {'; '.join(event.holders)}{hidden}"
    if hidden:
        return f"nobody of this role keeps them{hidden}"
    return "nobody keeps them: is autovacuum off, or overtaken?"


def _said(kind: type[EventT], level: int, sentence: Callable[[EventT], str]) -> _Entry:
    return kind, (level, sentence)


_SENTENCES = dict(
    [
        _said(
            on.WorkerStarted,
            logging.INFO,
            lambda e: (
                f"worker {e.worker_id} takes jobs of {len(e.tasks)} tasks ({', '.join(e.tasks) or 'none'}) from schema "
                f"{e.schema!r}: concurrency {e.concurrency}, poll {e.poll_s:g} s, lease {e.lease_s:g} s, grace "
                f"{e.grace_s:g} s, at most {e.connections} connections and {e.pool_size} for handlers; PostgreSQL "
                f"{e.server}, {e.loop}"
            ),
        ),
        _said(
            on.WorkerStopping,
            logging.INFO,
            lambda e: (
                f"worker {e.worker_id} stops ({e.reason}): {e.running} running jobs may finish within {e.grace_s:g} s"
            ),
        ),
        _said(
            on.WorkerStopped,
            logging.INFO,
            lambda e: (
                f"worker {e.worker_id} has stopped: {e.completed} jobs completed, {e.failed} attempts failed, "
                f"{e.returned} returned unstarted" + (f", {e.stuck} handlers would not end" if e.stuck else "")
            ),
        ),
        _said(
            on.GraceExceeded,
            logging.WARNING,
            lambda e: (
                f"worker {e.worker_id} cancels jobs that did not finish within the grace period: {_ids(e.job_ids)}"
            ),
        ),
        _said(
            on.WorkerCrashed,
            logging.ERROR,
            lambda e: f"worker {e.worker_id} ends: a part of it failed; others take over its jobs after the lease",
        ),
        _said(
            on.WorkerLost,
            logging.ERROR,
            lambda e: (
                f"worker {e.worker_id} was declared dead by another one: its {e.running} running jobs are cancelled, "
                "and it registers anew; was this process stalled, or cut off?"
            ),
        ),
        _said(
            on.LeaseInDoubt,
            logging.ERROR,
            lambda e: (
                f"worker {e.worker_id} cannot prove that it lives ({e.reason}), others may take over: its {e.running} "
                f"running jobs are cancelled; its last sign of life was {e.silent_s:.1f} s ago, of a lease of "
                f"{e.lease_s:g} s"
            ),
        ),
        _said(
            on.HeartbeatFailed,
            logging.WARNING,
            lambda e: (
                f"worker {e.worker_id} could not prove that it lives, for {e.silent_s:.1f} s of a lease of "
                f"{e.lease_s:g} s: {e.error}"
            ),
        ),
        _said(
            on.LoopBlocked,
            logging.WARNING,
            lambda e: (
                f"the event loop of worker {e.worker_id} answers again after {e.blocked_s:.1f} s, it was blocked by "
                + ("code that is no handler of its" if e.job_id is None else f"job {e.job_id} ({e.task})")
                + f": {e.stack.strip()}"
            ),
        ),
        _said(
            on.TooManyStuck,
            logging.ERROR,
            lambda e: (
                f"worker {e.worker_id} fetches no more jobs until one of its stuck handlers ends, of the jobs "
                f"{_ids(e.job_ids)}"
            ),
        ),
        _said(
            on.JobsRescued,
            logging.WARNING,
            lambda e: (
                f"returned {len(e.job_ids)} jobs of dead workers ({_ids(e.worker_ids)}): {_ids(e.job_ids)}"
                + (f"; failed for good: {_ids(e.dead_job_ids)}" if e.dead_job_ids else "")
                + (
                    f"; no attempt counted, it is not known if they ran: {_ids(e.spared_job_ids)}"
                    if e.spared_job_ids
                    else ""
                )
            ),
        ),
        _said(
            on.TransactionsEnded,
            logging.WARNING,
            lambda e: (
                f"ended the transactions of workers that were silent for twice their lease ({_ids(e.worker_ids)}), "
                f"so that others can run their jobs: {_ids(e.job_ids)}"
            ),
        ),
        _said(
            on.JobsPruned,
            logging.INFO,
            lambda e: (
                f"removed what need not be kept: {e.failed} jobs that failed for good long ago, {e.ended} ended jobs, "
                f"{e.requests} requests, {e.gates} gates"
            ),
        ),
        _said(
            on.HorizonHeld,
            logging.WARNING,
            lambda e: (
                f"{e.dead_rows:,} dead rows of {e.table} slow down the look for jobs to {e.look_s * 1000:.0f} ms "
                f"from {e.usual_s * 1000:.1f}; {_blame(e)}"
            ),
        ),
        _said(
            on.MaintenanceFailed,
            logging.WARNING,
            lambda e: f"maintenance failed, the next round tries again: {e.error}",
        ),
        _said(
            on.TasksLeftBehind,
            logging.WARNING,
            lambda e: f"handlers left asyncio tasks behind, which are cancelled: {', '.join(e.names)}",
        ),
        _said(
            on.UnknownTasks,
            logging.WARNING,
            lambda e: f"jobs wait for tasks that this worker does not know, it leaves them alone: {', '.join(e.names)}",
        ),
        _said(
            on.ListenConnected,
            logging.INFO,
            lambda e: f"listening on {e.channel!r}" + (f" again, after {e.attempt} tries" if e.attempt > 1 else ""),
        ),
        _said(
            on.ListenLost,
            logging.WARNING,
            lambda e: f"cannot listen, polling goes on; next try in {e.retry_in_s:.1f} s: {e.error}",
        ),
        _said(
            on.PollingOnly,
            logging.WARNING,
            lambda e: f"not listening, new jobs wait for the next poll: {e.reason}",
        ),
        _said(
            on.FetchFailed, logging.WARNING, lambda e: f"fetching failed; next try in {e.retry_in_s:.1f} s: {e.error}"
        ),
        _said(
            on.JobsFetched,
            logging.DEBUG,
            lambda e: f"fetched {e.count} of {e.wanted} wanted jobs in {e.duration_s * 1000:.1f} ms",
        ),
        _said(on.JobsReturned, logging.INFO, lambda e: f"returned {len(e.job_ids)} unstarted jobs ({e.reason})"),
        _said(
            on.SettleFailed,
            logging.WARNING,
            lambda e: (
                f"could not write {e.count} settlements, they are kept; next try in {e.retry_in_s:.1f} s: {e.error}"
            ),
        ),
        _said(
            on.SettlementsAbandoned,
            logging.ERROR,
            lambda e: f"could not write what became of jobs before the end, they will run again: {_ids(e.job_ids)}",
        ),
        _said(on.CronStarted, logging.INFO, lambda e: f"schedules {len(e.items)} recurring items: {_names(e.items)}"),
        _said(
            on.CronBackfilled,
            logging.INFO,
            lambda e: (
                f"made up for missed slots of recurring items ({_names(e.items)}): "
                f"{len(e.job_ids)} jobs, {_ids(e.job_ids)}"
            ),
        ),
        _said(
            on.CronAdded,
            logging.DEBUG,
            lambda e: f"added {len(e.job_ids)} jobs of recurring items ({_names(e.items)}): {_ids(e.job_ids)}",
        ),
        _said(
            on.CronItemFailed,
            logging.WARNING,
            lambda e: (
                f"the recurring item {e.item!r} failed, the others go on; next try in {e.retry_in_s:.1f} s: {e.error}"
            ),
        ),
        _said(
            on.CronItemsChanged,
            logging.INFO,
            lambda e: f"stored recurring items have changed; scheduled anew: {_names(e.items)}; gone: {_names(e.gone)}",
        ),
        _said(
            on.CronItemRefused,
            logging.WARNING,
            lambda e: f"the stored recurring item {e.item!r} cannot be scheduled, the others are: {e.error}",
        ),
        _said(
            on.CronItemShadowed,
            logging.WARNING,
            lambda e: (
                f"the stored recurring item {e.item!r} waits: this worker's own crontab has an item of that identifier"
            ),
        ),
        _said(
            on.CronFailed,
            logging.WARNING,
            lambda e: f"recurring jobs cannot be added; next try in {e.retry_in_s:.1f} s: {e.error}",
        ),
        _said(
            on.CronClockJumped,
            logging.WARNING,
            lambda e: (
                f"the clock was looked at {e.by_s:.0f} s too late, recurring jobs of the last hour are made up for; "
                "was this machine asleep, the event loop blocked, or the server's clock set?"
                if e.by_s > 0
                else f"the server's clock went back by {-e.by_s:.0f} s: no recurring job is added twice"
            ),
        ),
        _said(
            on.UnknownCronTasks,
            logging.WARNING,
            lambda e: f"recurring items name tasks that this worker does not know: {_names(e.names)}",
        ),
        _said(on.ObserverFailed, logging.ERROR, lambda e: f"{e.observer} failed on {e.event}: {e.error!r}"),
        _said(on.JobStarted, logging.DEBUG, lambda e: f"{_job(e)} starts"),
        _said(on.JobCompleted, logging.DEBUG, lambda e: f"{_job(e)} completed in {e.duration_s * 1000:.1f} ms"),
        _said(
            on.JobRetried,
            logging.WARNING,
            lambda e: f"{_job(e)} failed, next try in {e.delay_s:.1f} s: {_first_line(e.error)}",
        ),
        _said(on.JobFailed, logging.ERROR, lambda e: f"{_job(e)} has failed for good: {e.error}"),
        _said(on.JobSnoozed, logging.DEBUG, lambda e: f"{_job(e)} snoozed for {e.delay_s:.1f} s"),
        _said(
            on.JobCancelled,
            logging.INFO,
            lambda e: (
                f"{_job(e)} was cancelled after {e.duration_s:.1f} s"
                + (f"; it raised {_first_line(e.error)}" if e.error else "")
            ),
        ),
        _said(on.JobInterrupted, logging.WARNING, lambda e: f"{_job(e)} was interrupted and is due again"),
        _said(
            on.JobHindered,
            logging.WARNING,
            lambda e: (
                f"{_job(e)} was hindered, nothing of it was kept; next try in {e.delay_s:.1f} s, no attempt counted: "
                f"{_first_line(e.error)}"
            ),
        ),
        _said(
            on.JobLost,
            logging.WARNING,
            lambda e: f"{_job(e)} was no longer held by this worker when its run ended; what it came to was refused",
        ),
        _said(
            on.HandlerStuck,
            logging.ERROR,
            lambda e: (
                f"{_job(e)} runs on although it was cancelled {e.stuck_s:g} s ago; its job stays claimed until it "
                f"ends; it is at {e.stack.strip()}"
            ),
        ),
        _said(
            on.CommitUncertain,
            logging.WARNING,
            lambda e: f"what becomes of {_job(e)} is not known yet, the server is asked: {e.error}",
        ),
        _said(
            on.TransactionOpen,
            logging.WARNING,
            lambda e: (
                f"{_job(e)} has kept its transaction open for {e.open_s:.0f} s: nothing that was deleted or changed "
                "since can be vacuumed; split the job, or do what takes long outside of the transaction"
            ),
        ),
        _said(
            on.ErrorIgnored,
            logging.WARNING,
            lambda e: f"{_job(e)} raised after it was completed, and stays completed: {_first_line(e.error)}",
        ),
        _said(
            on.ResultIgnored,
            logging.INFO,
            lambda e: f"task {e.task} returned a value of type {e.type_name}: results are not kept",
        ),
    ]
)

"""The sentences about workers, their connections and their maintenance."""

from __future__ import annotations

import logging

from asyncq.domain import events as on
from asyncq.log.sentences import ids, said


def _blame(event: on.VacuumBlocked) -> str:
    hidden = "" if event.sees_all else "; what other roles do is hidden: grant pg_read_all_stats to the worker's"
    if event.holders:
        return f"they cannot be removed because of {'; '.join(event.holders)}{hidden}"
    if hidden:
        return f"nobody of this role keeps them{hidden}"
    return "nobody keeps them: is autovacuum off, or overtaken?"


SENTENCES = [
    said(
        on.WorkerStarted,
        logging.INFO,
        lambda e: (
            (
                "worker %s takes jobs of %s tasks (%s) from schema '%s': concurrency %s, poll %g s, lease %g s, grace "
                "%g s, at most %s connections and %s for handlers; PostgreSQL %s, %s"
            ),
            e.worker_id,
            len(e.tasks),
            ", ".join(e.tasks) or "none",
            e.schema,
            e.concurrency,
            e.poll_s,
            e.lease_s,
            e.grace_s,
            e.connections,
            e.pool_size,
            e.server,
            e.loop,
        ),
    ),
    said(
        on.WorkerStopping,
        logging.INFO,
        lambda e: (
            "worker %s stops (%s): %s running jobs may finish within %g s",
            e.worker_id,
            e.reason,
            e.running,
            e.grace_s,
        ),
    ),
    said(
        on.WorkerStopped,
        logging.INFO,
        lambda e: (
            "worker %s has stopped: %s jobs completed, %s attempts failed, %s returned unstarted%s",
            e.worker_id,
            e.completed,
            e.failed,
            e.returned,
            f", {e.stuck} handlers would not end" if e.stuck else "",
        ),
    ),
    said(
        on.GraceExceeded,
        logging.WARNING,
        lambda e: (
            "worker %s cancels jobs that did not finish within the grace period: %s",
            e.worker_id,
            ids(e.job_ids),
        ),
    ),
    said(
        on.WorkerCrashed,
        logging.ERROR,
        lambda e: (
            "worker %s ends: a part of it failed; others take over its jobs after the lease: %s",
            e.worker_id,
            e.error,
        ),
    ),
    said(
        on.WorkerLost,
        logging.ERROR,
        lambda e: (
            (
                "worker %s was declared dead by another one: its %s running jobs are cancelled, and it registers anew; "
                "was this process stalled, or cut off?"
            ),
            e.worker_id,
            e.running,
        ),
    ),
    said(
        on.LeaseInDoubt,
        logging.ERROR,
        lambda e: (
            (
                "worker %s cannot prove that it lives (%s), others may take over: its %s running jobs are cancelled; "
                "its last sign of life was %.1f s ago, of a lease of %g s"
            ),
            e.worker_id,
            e.reason,
            e.running,
            e.silent_s,
            e.lease_s,
        ),
    ),
    said(
        on.PartRecovered,
        logging.INFO,
        lambda e: ("%s works again after %.1f s and %s failures", e.part, e.lasted_s, e.failures),
    ),
    said(
        on.HeartbeatFailed,
        logging.WARNING,
        lambda e: (
            "worker %s could not prove that it lives, for %.1f s of a lease of %g s: %s",
            e.worker_id,
            e.silent_s,
            e.lease_s,
            e.error,
        ),
    ),
    said(
        on.LoopBlocked,
        logging.WARNING,
        lambda e: (
            "the event loop of worker %s answers again after %.1f s, it was blocked by %s: %s",
            e.worker_id,
            e.blocked_s,
            "code that is no handler of its" if e.job_id is None else f"job {e.job_id} ({e.task})",
            e.stack.strip(),
        ),
    ),
    said(
        on.TooManyStuck,
        logging.ERROR,
        lambda e: (
            "worker %s fetches no more jobs until one of its stuck handlers ends, of the jobs %s",
            e.worker_id,
            ids(e.job_ids),
        ),
    ),
    said(
        on.JobsRescued,
        logging.WARNING,
        lambda e: (
            "returned %s jobs of dead workers (%s): %s%s%s",
            len(e.job_ids),
            ids(e.worker_ids),
            ids(e.job_ids),
            f"; discarded: {ids(e.discarded_job_ids)}" if e.discarded_job_ids else "",
            f"; no attempt counted, it is not known if they ran: {ids(e.spared_job_ids)}" if e.spared_job_ids else "",
        ),
    ),
    said(
        on.TransactionsEnded,
        logging.WARNING,
        lambda e: (
            (
                "ended the transactions of workers that were silent for twice their lease (%s), so that others can run "
                "their jobs: %s"
            ),
            ids(e.worker_ids),
            ids(e.job_ids),
        ),
    ),
    said(
        on.JobsPruned,
        logging.INFO,
        lambda e: (
            (
                "removed what need not be kept: %s jobs that were discarded long ago, %s ended jobs, %s requests, "
                "%s key locks"
            ),
            e.discarded,
            e.ended,
            e.requests,
            e.key_locks,
        ),
    ),
    said(
        on.VacuumBlocked,
        logging.WARNING,
        lambda e: (
            "%s dead rows of %s slow down the look for jobs to %.0f ms from %.1f; %s",
            f"{e.dead_rows:,}",
            e.table,
            e.look_s * 1000,
            e.usual_s * 1000,
            _blame(e),
        ),
    ),
    said(
        on.MaintenanceFailed,
        logging.WARNING,
        lambda e: ("maintenance failed, the next round tries again: %s", e.error),
    ),
    said(
        on.TasksLeftBehind,
        logging.WARNING,
        lambda e: ("handlers left asyncio tasks behind, which are cancelled: %s", ", ".join(e.names)),
    ),
    said(
        on.UnknownTasks,
        logging.WARNING,
        lambda e: (
            "jobs wait for tasks that this worker does not know, it leaves them alone: %s",
            ", ".join(e.names),
        ),
    ),
    said(
        on.ListenConnected,
        logging.INFO,
        lambda e: ("listening on '%s'%s", e.channel, f" again, after {e.attempt} tries" if e.attempt > 1 else ""),
    ),
    said(
        on.ListenLost,
        logging.WARNING,
        lambda e: ("cannot listen, polling goes on; next try in %.1f s: %s", e.retry_in_s, e.error),
    ),
    said(
        on.PollingOnly,
        logging.WARNING,
        lambda e: ("not listening, new jobs wait for the next poll: %s", e.reason),
    ),
    said(
        on.LeaseOnly,
        logging.WARNING,
        lambda e: ("if this worker is killed, its jobs wait for the end of its lease: %s", e.reason),
    ),
    said(
        on.FetchFailed,
        logging.WARNING,
        lambda e: ("fetching failed; next try in %.1f s: %s", e.retry_in_s, e.error),
    ),
    said(
        on.JobsFetched,
        logging.DEBUG,
        lambda e: ("fetched %s of %s wanted jobs in %.1f ms", e.count, e.wanted, e.duration_s * 1000),
    ),
    said(
        on.JobsReturned,
        logging.INFO,
        lambda e: ("returned %s unstarted jobs (%s)", len(e.job_ids), e.reason),
    ),
    said(
        on.SettleFailed,
        logging.WARNING,
        lambda e: (
            "could not write %s settlements, they are kept; next try in %.1f s: %s",
            e.count,
            e.retry_in_s,
            e.error,
        ),
    ),
    said(
        on.SettlementsAbandoned,
        logging.ERROR,
        lambda e: (
            "could not write what became of jobs before the end, they will run again: %s",
            ids(e.job_ids),
        ),
    ),
    said(
        on.ObserverFailed,
        logging.ERROR,
        lambda e: ("%s failed on %s: %s", e.observer, e.event, e.error),
    ),
]

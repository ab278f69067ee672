"""The sentences about workers, their connections and their maintenance."""

from asyncq.domain import events as on
from asyncq.domain.pause import phrase
from asyncq.domain.sentence import printable
from asyncq.log.sentences import Table, debug, error, first_line, info, listed, warning


def _paused(event: on.Paused | on.Resumed) -> str:
    return phrase(event.what, event.name, event.key)


def _by(event: on.Paused | on.Resumed) -> str:
    return printable(event.by)


def _why(event: on.Paused | on.Resumed) -> str:
    return "" if event.reason is None else f": {printable(event.reason)}"


def _partition(event: on.PartitionBackedOff | on.PartitionCorrected) -> str:
    """The queue, limit or key of a limit. A paused task without a limit, or a queue without jobs, has no name."""
    if event.limit is None:
        return phrase("queue", event.key, None) if event.key else "its partition"
    return phrase("key", event.limit, event.key) if event.key else phrase("limit", event.limit, None)


SENTENCES: Table = {
    on.WorkerStarted: info(
        "worker %(worker_id)s takes jobs of %(count)s tasks (%(tasks)s) from schema '%(schema)s'; concurrency "
        "%(concurrency)s, poll %(poll_s)g s, lease %(lease_s)g s, grace %(grace_s)g s, at most %(connections)s "
        "connections and %(pool_size)s for handlers; PostgreSQL %(server)s, %(loop)s",
        count=lambda e: len(e.tasks),
        tasks=lambda e: ", ".join(e.tasks) or "none",
    ),
    on.ProbesStarted: info("probes and metrics: %(address)s/healthz, /readyz, /metrics"),
    on.WorkerStopping: info(
        "worker %(worker_id)s stops (%(reason)s): %(running)s running jobs may finish within %(grace_s)g s"
    ),
    on.WorkerStopped: info(
        "worker %(worker_id)s has stopped: %(completed)s jobs completed, %(failed)s attempts failed, %(returned)s "
        "returned unstarted%(stuck)s",
        stuck=lambda e: f", {e.stuck} handlers did not end" if e.stuck else "",
    ),
    on.GraceExceeded: warning(
        "worker %(worker_id)s cancels jobs that did not finish within the grace period: %(job_ids)s"
    ),
    on.WorkerCrashed: error(
        "worker %(worker_id)s ends because a part of it failed; others take over its jobs after the lease: %(error)s"
    ),
    on.WorkerLost: error(
        "worker %(worker_id)s was declared dead by another one: its %(running)s running jobs are cancelled, and it "
        "registers with a new id; was this process stalled, or cut off?"
    ),
    on.LeaseInDoubt: error(
        "worker %(worker_id)s cannot prove that it lives (%(reason)s); others may take over, so its %(running)s "
        "running jobs are cancelled; its last heartbeat was %(silent_s).1f s ago, of a lease of %(lease_s)g s"
    ),
    on.PartRecovered: info("%(part)s works again after %(lasted_s).1f s and %(failures)s failures"),
    on.HeartbeatFailed: warning(
        "worker %(worker_id)s could not send a heartbeat, for %(silent_s).1f s of a lease of %(lease_s)g s: %(error)s"
    ),
    on.LoopBlocked: warning(
        "the event loop of worker %(worker_id)s answers again after %(blocked_s).1f s, it was blocked by %(by)s: "
        "%(stack)s",
        by=lambda e: "code that is not one of its handlers" if e.job_id is None else f"job {e.job_id} ({e.task})",
        stack=lambda e: e.stack.strip(),
    ),
    on.TooManyStuck: error(
        "worker %(worker_id)s fetches no jobs until one of its stuck handlers ends; their jobs: %(job_ids)s"
    ),
    on.JobsRescued: warning(
        "returned %(count)s jobs of dead workers (%(worker_ids)s): %(job_ids)s%(discarded)s%(spared)s",
        count=lambda e: len(e.job_ids),
        discarded=lambda e: f"; discarded: {listed(e.discarded_job_ids)}" if e.discarded_job_ids else "",
        spared=lambda e: (
            f"; no attempt counted, they may not have started: {listed(e.spared_job_ids)}" if e.spared_job_ids else ""
        ),
    ),
    on.TransactionsEnded: warning(
        "ended the transactions of workers that were silent for twice their lease (%(worker_ids)s), so that other "
        "workers can run their jobs: %(job_ids)s"
    ),
    on.JobsPruned: info(
        "removed old data: %(discarded)s jobs that were discarded long ago, %(ended)s ended jobs, "
        "%(requests)s requests, %(key_locks)s key locks, %(attempts)s failed attempts, %(steps)s steps"
    ),
    on.HistorySize: info(
        "the history has %(jobs)s%(more)s ended jobs, in %(mb).1f MB; the oldest ended %(days).1f days ago",
        more=lambda e: " or more" if e.jobs >= 1_000_000 else "",
        mb=lambda e: e.bytes / 1_000_000,
        days=lambda e: e.oldest_s / 86_400,
    ),
    on.JobsReleased: debug("jobs that waited for others: %(released)s may start, %(cancelled)s end as cancelled"),
    on.JobBlocked: error(
        "job %(waiter)s waits for job %(failed)s, which has failed for good: retry that one, or cancel the first"
    ),
    on.InputsRefused: error(
        "job %(waiter)s is discarded: the results of the jobs that it waited for are larger than a payload may be"
    ),
    on.JobsExpired: info("ended %(count)s waiting jobs that had expired: %(job_ids)s", count=lambda e: len(e.job_ids)),
    on.MaintenanceFailed: warning("maintenance failed; the next round tries again: %(error)s"),
    on.TasksLeftBehind: warning(
        "handlers ended before their asyncio tasks, which are cancelled: %(names)s", names=lambda e: ", ".join(e.names)
    ),
    on.ResourceFailed: error("%(name)s failed after it was opened: %(error)s", error=first_line),
    on.PartitionCorrected: error(
        "%(counted)s running jobs were counted for %(partition)s, and %(running)s run; "
        "this is corrected, please report it",
        partition=_partition,
    ),
    on.LimitChanged: info(
        "limit '%(limit)s' is now %(after)s, as %(by)s declares; it was %(before)s, as %(was_by)s had declared",
    ),
    on.PartitionBackedOff: info(
        "no job of %(partition)s starts until %(until)s: job %(job_id)s asked for that", partition=_partition
    ),
    on.UnknownTasks: warning(
        "jobs wait for tasks that this worker does not know, and does not run: %(names)s",
        names=lambda e: ", ".join(e.names),
    ),
    on.ListenConnected: info(
        "listening on '%(channel)s'%(again)s",
        again=lambda e: f" again, after {e.attempt} tries" if e.attempt > 1 else "",
    ),
    on.ListenLost: warning("cannot listen, so the worker polls; next try in %(retry_in_s).1f s: %(error)s"),
    on.PollingOnly: warning("not listening, so new jobs wait for the next poll: %(reason)s"),
    on.LeaseOnly: warning("if this worker is killed, its jobs wait for the end of its lease: %(reason)s"),
    on.Paused: info("%(by)s paused %(paused)s%(why)s", paused=_paused, by=_by, why=_why),
    on.Resumed: info("%(by)s resumed %(paused)s%(why)s", paused=_paused, by=_by, why=_why),
    on.FetchFailed: warning("fetching failed; next try in %(retry_in_s).1f s: %(error)s"),
    on.JobsFetched: debug(
        "fetched %(count)s of %(wanted)s wanted jobs in %(ms).1f ms", ms=lambda e: e.duration_s * 1000
    ),
    on.JobsReturned: info("returned %(count)s unstarted jobs (%(reason)s)", count=lambda e: len(e.job_ids)),
    on.SettleFailed: warning(
        "could not write %(count)s settlements; they are kept, next try in %(retry_in_s).1f s: %(error)s"
    ),
    on.SettlementsAbandoned: error(
        "could not write the ends of jobs before the worker ended; they will run again: %(job_ids)s"
    ),
    on.ObserverFailed: error("%(observer)s failed on %(event)s: %(error)s"),
}

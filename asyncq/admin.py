"""`Admin`: reads and changes jobs, on the client's pool or on the caller's connection."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.administration import (
    Counts,
    EndedJob,
    Explanation,
    Rights,
    WorkerInfo,
    check_cleanup,
    check_history,
    check_job_id,
    check_wanted,
    checked_changes,
    job_ids,
    kept_tasks,
    state_of,
    storable_error,
    worker_ids,
)
from asyncq.domain.attempt import Attempt
from asyncq.domain.checkup import Checkup, Repaired
from asyncq.domain.job import Job, check_key
from asyncq.domain.limit import Rate
from asyncq.domain.limit_info import (
    LimitInfo,
    PartitionInfo,
    check_partitions,
    check_texts,
    limit_values,
    partition_values,
)
from asyncq.domain.pause import Pause, check_pause
from asyncq.domain.states import JobState
from asyncq.finding import JobSearch
from asyncq.store import admin as store
from asyncq.store import checkup as checkups
from asyncq.store import limit_admin, pauses
from asyncq.store.callers import changing
from asyncq.store.database import CallersConnection

SAFE_CLEANUP = ("GC_JOB_QUEUES", "GC_TASK_IDENTIFIERS")


class Admin(JobSearch):
    """Reads and changes jobs; `client.admin` is one.

    A method that changes jobs takes their ids and returns the changed jobs, in the order of their ids. It does not
    change running jobs (except `cancel_jobs`), and ignores unknown ids. With `connection=` the change is part of the
    caller's transaction, which must be open. It waits for jobs that another transaction is changing. At REPEATABLE READ
    and SERIALIZABLE a job that was changed since the transaction began raises a StoreError with `sqlstate` 40001: start
    the transaction again.

    Args:
        database: The database of the jobs.
        acquire: Opens a connection for a call.
    """

    async def cancel_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Cancel jobs: waiting jobs end at once, running handlers are cancelled once; none of them is retried.

        Args:
            ids: The ids of the jobs; discarded jobs are not changed.
            connection: A connection of the caller, in a transaction, as in `Client.add_job`; the client's pool by
                default.
            autocommit: Whether `connection` may be outside of a transaction, where the change is committed at once;
                False by default.

        Returns:
            The cancelled jobs, as they were before. Running ones have `locked_by`: they keep their row and their queue
            until the handler has ended. All other methods already show them as cancelled.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._administer("cancel", ids, connection, autocommit)

    async def complete_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """End jobs that do not run as completed, also those that failed.

        Args:
            ids: The ids of the jobs.
            connection: As in `cancel_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that ended, as they were before.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._administer("complete", ids, connection, autocommit)

    async def discard_jobs(
        self,
        ids: Iterable[int],
        error: str | None = None,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> list[Job]:
        """Discard jobs that do not run: no attempt is left, and they keep their keys.

        Args:
            ids: The ids of the jobs.
            error: Their `last_error`; "Manually marked as failed" by default. Characters that PostgreSQL cannot store
                are escaped, and a text of more than 16,384 characters is cut in the middle.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The discarded jobs, as they are now.

        Raises:
            InvalidJob: `ids` is not a list of ids, or `error` is not a text; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._administer("discard", ids, connection, autocommit, error=storable_error(error))

    async def reschedule_jobs(
        self,
        ids: Iterable[int],
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> list[Job]:
        """Change the time, the priority and the attempts of jobs that do not run.

        None leaves a field unchanged; 0 is a value.

        Args:
            ids: The ids of the jobs.
            run_at: The earliest start, with a time zone; a job that is due then wakes a worker.
            priority: -32768 to 32767, lower first.
            attempts: The number of failed attempts, 0 to 32767; below `max_attempts` a discarded job runs again.
            max_attempts: The number of attempts in all, 1 to 32767.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The changed jobs, as they are now.

        Raises:
            InvalidJob: A value is out of range, or `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        given = checked_changes(run_at, priority, attempts, max_attempts)
        return await self._administer("reschedule", ids, connection, autocommit, **given)

    async def retry_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Retry failed and discarded jobs: they are due at once, with all their attempts, and a worker is woken.

        Args:
            ids: The ids of the jobs; running jobs, and jobs without a failed attempt, are not changed.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that will be retried, as they are now; `last_error` stays until the next failure.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        Unique policies are not checked again, because they were checked when the job was added. If cancelled, the
        outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._administer("retry", ids, connection, autocommit)

    async def _administer(
        self, act: store.Act, ids: Any, connection: CallersConnection | None, autocommit: bool, **changes: Any
    ) -> list[Job]:
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.administer(self._database, mine, act, chosen, **changes)

    async def remove_job(
        self, key: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> Job | None:
        """Remove the job that has a key. A running job loses its key instead, and is not retried.

        Args:
            key: The job key.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The job; None if no job has the key. For a running job, `locked_by` is its worker.

        Raises:
            InvalidJob: The key is not valid.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_key(key)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.remove_job(self._database, mine, key)

    async def force_unlock_workers(
        self, ids: Iterable[int | str], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Return the claims of workers at once, without waiting for the lease. Each claim counts as an attempt.

        Use it only for workers that are certainly gone. A live worker cancels its handlers when it notices, at its next
        heartbeat at the latest. Until then its jobs may run twice at once; the results of that worker are refused.

        Args:
            ids: The ids of the workers, as in `locked_by` and in the log.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that they held, as they are now. Jobs that were cancelled have ended.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used. Or a transaction held one of the jobs for ten seconds, and this
                role may not end that session, as the message says; nothing was changed.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        chosen = worker_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.force_unlock_workers(self._database, mine, chosen)

    async def list_workers(self) -> list[WorkerInfo]:
        """Read the workers, and unknown owners of claims, in the order of their ids.

        Returns:
            The workers, each with its state and the number of its claims, which an index has.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.list_workers(self._database, mine)

    async def cleanup(
        self,
        *tasks: str,
        task_identifiers_to_keep: Iterable[str] | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> dict[str, int]:
        """Remove data that is no longer needed; safe while adds and workers run.

        Args:
            *tasks: The kinds of data. `DELETE_PERMAFAILED_JOBS`: discarded jobs. `GC_TASK_IDENTIFIERS`: names of tasks
                that no job and no worker uses. `GC_JOB_QUEUES`: nothing, because queues leave no rows behind. The
                last two by default.
            task_identifiers_to_keep: Names of tasks that are kept, used or not; none by default.
            connection: As in `complete_jobs`. A name is then removed by the second cleanup, because the first one
                must be committed before.
            autocommit: As in `cancel_jobs`.

        Returns:
            The number of removed rows of each kind. A name that became unused stays while a transaction is open that
            began before; the next cleanup removes it.

        Raises:
            InvalidJob: A kind is unknown, or the names are not a list of names; nothing was done.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_cleanup(tasks)
        keep = kept_tasks(task_identifiers_to_keep)
        async with changing(connection, self._acquire, autocommit) as mine:
            done = await store.cleanup(self._database, mine, tasks or SAFE_CLEANUP, keep)
            if connection is None and (names := done.get("GC_TASK_IDENTIFIERS")) is not None:
                again = await store.cleanup(self._database, mine, ["GC_TASK_IDENTIFIERS"], keep)
                done["GC_TASK_IDENTIFIERS"] = names + again["GC_TASK_IDENTIFIERS"]
        return done

    async def get_job_by_key(self, key: str) -> Job | None:
        """Read the job that has a key.

        Args:
            key: The job key.

        Returns:
            The job as it is now; None if no job has the key.

        Raises:
            InvalidJob: The key is not valid.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_key(key)
        async with self._acquire() as mine:
            return await store.get_job_by_key(self._database, mine, key)

    async def errors(self, job_id: int) -> tuple[Attempt, ...]:
        """Read the failed attempts of a job, also of one that has ended since.

        Args:
            job_id: The id of the job.

        Returns:
            The attempts in the order in which they failed, of more than 1,000 the last ones. Workers keep each for
            their `error_retention`. Empty if no attempt failed, and for an unknown id.

        Raises:
            InvalidJob: `job_id` is not an int of 64 bits.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_job_id(job_id)
        async with self._acquire() as mine:
            return await store.errors(self._database, mine, job_id)

    async def list_ended_jobs(
        self,
        *,
        state: JobState | str | None = None,
        task: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[EndedJob]:
        """Read a page of the history: jobs that have ended and are kept, and discarded ones.

        Args:
            state: Only jobs that ended as `completed`, `cancelled` or `discarded`; any by default.
            task: Only jobs of this task.
            since: Only jobs that ended then or later, with a time zone.
            limit: How many at most, 1 to 1000; 100 by default.
            before: Only jobs with a smaller id: the last one of the page before.

        Returns:
            The jobs, the greatest id first, without payload and result; fewer than `limit` only on the last page.

        Raises:
            InvalidJob: An argument is out of range, or a name is not valid.
            StoreError: The database cannot be used.

        It reads jobs until it has found enough, 50,000 in a statement. With the state `cancelled` or `discarded` it
        reads only the jobs of that state. If cancelled, nothing was changed: it only reads.
        """
        check_history(state, since, before, limit)
        check_wanted(task=task)
        of = None if state is None else state_of(state)
        async with self._acquire() as mine:
            return await store.list_history(
                self._database, mine, state=of, task=task, since=since, before=before, limit=limit
            )

    async def remove_ended_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[int]:
        """Remove jobs that have ended from the history, with their failed attempts, before their time is over.

        Args:
            ids: The ids of the jobs; those that have not ended, or are discarded, are not changed.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The ids of the removed jobs, in order. A unique policy that looks at ended jobs still knows them.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._change_history("remove", ids, connection, autocommit)

    async def redact_ended_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[int]:
        """Blank the payloads, results and meta of jobs that have ended; the rest of their history stays.

        Args:
            ids: The ids of the jobs; those that have not ended, or are discarded, are not changed.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The ids of the redacted jobs, in order. Errors are not changed: `remove_ended_jobs` removes them too. A job
            without an error gets one, as the reason why it has no result.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        return await self._change_history("redact", ids, connection, autocommit)

    async def _change_history(
        self,
        act: Literal["remove", "redact"],
        ids: Any,
        connection: CallersConnection | None,
        autocommit: bool,
    ) -> list[int]:
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.change_history(self._database, mine, act, chosen)

    async def pause(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        limit: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> Pause:
        """Pause a task, a queue, a limit, or one key of a limit; without any of them, everything.

        From the commit on no worker starts a job of it until it is resumed. Running jobs run on, and jobs can be added.
        A fetch or an add whose statement began before may still start jobs, an add one at most.

        Args:
            task: The name of a task. It need not exist: what is paused holds when it comes.
            queue: The name of a queue.
            limit: The name of a limit: all jobs of its tasks, or with `key` those of one key.
            key: A key of the limit.
            reason: Why, 1 to 500 characters; none by default.
            by: Who, 1 to 128 characters; the role of the session by default.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The pause. If it was paused already, only `by` and the reason have changed: `paused_at` stays.

        Raises:
            InvalidJob: An argument is not valid, or more than one of task, queue and limit are given.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        target = check_pause(task=task, queue=queue, limit=limit, key=key, reason=reason, by=by)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await pauses.pause(self._database, mine, target)

    async def resume(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        limit: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> Pause | None:
        """Resume what was paused by the same arguments: workers look for its jobs at once.

        Args:
            task: The name of a task.
            queue: The name of a queue.
            limit: The name of a limit.
            key: A key of the limit.
            reason: Why, for the event `Resumed`.
            by: Who, for the same event; the role of the session by default.
            connection: As in `complete_jobs`; in a transaction at READ COMMITTED.
            autocommit: As in `cancel_jobs`.

        Returns:
            The pause that has ended; None if it was not paused.

        Raises:
            InvalidJob: As for `pause`; or the transaction of the connection is not at READ COMMITTED.
            StoreError: The database cannot be used.

        Each pause ends by itself: a task that was paused stays paused when everything is resumed. If cancelled, the
        outcome is unknown unless the caller's transaction rolls back.
        """
        target = check_pause(task=task, queue=queue, limit=limit, key=key, reason=reason, by=by)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await pauses.resume(self._database, mine, target)

    async def paused(self) -> list[Pause]:
        """Read everything that is paused.

        Returns:
            The pauses, the earliest one first.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await pauses.paused(self._database, mine)

    async def limits(self) -> list[LimitInfo]:
        """Read the limits of tasks, and the queues that have a limit of their own.

        Returns:
            The limits, in the order of their names, with the values that were declared and those that were set.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await limit_admin.limits(self._database, mine)

    async def set_limit(
        self,
        name: str,
        *,
        concurrency: int | None | msgspec.UnsetType = msgspec.UNSET,
        rate: Rate | None | msgspec.UnsetType = msgspec.UNSET,
        total: int | None | msgspec.UnsetType = msgspec.UNSET,
        total_rate: Rate | None | msgspec.UnsetType = msgspec.UNSET,
        by: str | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> LimitInfo:
        """Set values of a limit in place of those that workers declare, until `unset_limit`; no deployment undoes it.

        A value that is not given stays as it is, and None is no limit. Jobs that run already go on, also if more of
        them run than the limit is now.

        Args:
            name: The name of the limit, which is that of its task by default; or a queue with a limit of its own.
            concurrency: How many jobs of each key may run at once, 1 to 32,767; of all jobs if the limit has no key.
            rate: How many jobs of each key may start in a time; of all jobs if the limit has no key.
            total: How many jobs of all keys may run at once, 1 to 32,767.
            total_rate: How many jobs of all keys may start in a time.
            by: Who, 1 to 128 characters; the role of the session by default.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The limit as it is now.

        Raises:
            InvalidJob: A value is not valid, or no worker has declared the limit.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        given = limit_values(name, by, at_once=concurrency, rate=rate, total=total, total_rate=total_rate)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await limit_admin.set_limit(self._database, mine, name, given, by)

    async def unset_limit(
        self,
        name: str,
        key: str | None = None,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> LimitInfo:
        """Undo `set_limit`, or with a key `set_partition`: the declared values are in force again.

        Args:
            name: As in `set_limit`.
            key: The key; by default the values of all keys are unset.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The limit as it is now.

        Raises:
            InvalidJob: No worker has declared the limit, or there is a key and the limit has none.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_texts(name=name, key=key)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await limit_admin.unset_limit(self._database, mine, name, key)

    async def remove_limit(
        self, name: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> None:
        """End the declaration of a limit that no worker declares any more, and all that was set for it by hand.

        Nothing limits its jobs from then on, and those that wait start; the jobs of a queue run one at a time. If a
        worker declares the limit again when it starts, it holds again. A pause stays.

        Args:
            name: The name of the limit, which is that of its task by default; or a queue with a limit of its own.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Raises:
            InvalidJob: No worker has declared the limit, or a live worker still declares it. Of a queue only the worker
                is known that was the first to declare its limit.
            StoreError: The database cannot be used, or another transaction locks a task of the limit.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_texts(name=name)
        async with changing(connection, self._acquire, autocommit) as mine:
            await limit_admin.remove_limit(self._database, mine, name)

    async def set_partition(
        self,
        limit: str,
        key: str,
        *,
        concurrency: int | None = None,
        rate: Rate | None = None,
        weight: float | None = None,
        by: str | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> None:
        """Set values of one key of a limit in place of those of the limit, until `unset_limit` with the key.

        Args:
            limit: The name of the limit.
            key: The key, as it is in payloads.
            concurrency: How many of its jobs may run at once, 1 to 32,767; unchanged by default.
            rate: How many of its jobs may start in a time; unchanged by default.
            weight: How many turns it gets beside other keys, 0.01 to 100; unchanged by default.
            by: As in `set_limit`.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Raises:
            InvalidJob: A value is not valid, no worker has declared the limit, or it has no key.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        values = partition_values(limit, key, by, at_once=concurrency, rate=rate, weight=weight)
        async with changing(connection, self._acquire, autocommit) as mine:
            await limit_admin.set_partition(self._database, mine, limit, key, *values, by)

    async def partitions(self, limit: str, *, most: int = 100) -> list[PartitionInfo]:
        """Read the keys of a limit that have jobs or values of their own, or a queue.

        Args:
            limit: The name of the limit, or of a queue.
            most: How many keys at most, 1 to 1000; 100 by default.

        Returns:
            The keys, those with most running jobs first. Of very many keys it shows some thousand at most.

        Raises:
            InvalidJob: Nothing has this name, or `most` is out of range.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_partitions(limit, most)
        async with self._acquire() as mine:
            return await limit_admin.partitions(self._database, mine, limit, most)

    async def now(self) -> datetime:
        """Read the clock of the server, which decides when jobs are due.

        Returns:
            The time in UTC. Add a `timedelta` for a `run_at` that is relative to now.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.server_time(self._database, mine)

    async def counts(self, *, exact: bool = False) -> Counts:
        """Count the jobs in each state.

        Args:
            exact: Whether to count large tables too, about half a second for each million jobs. False by default: above
                8 MiB (some 50,000 jobs) a sample is counted, in about 20 ms.

        Returns:
            The figures, and the names of those that are estimates: in a large table those of waiting jobs. Running and
            discarded jobs are exact up to 20,000 of each. The sample is the same in the next call. An estimate of 0
            does not prove that there are none. Jobs that are paused, or wait for a limit, are `available`; `paused` is
            the number of those that are paused.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.counts(self._database, mine, exact=exact)

    async def rights(self) -> Rights:
        """Read what the role of the client may do, and what the server is.

        Returns:
            The rights; on a standby nothing can be changed, whatever the role may do.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.rights(self._database, mine)

    async def explain(self, job_id: int) -> Explanation:
        """Explain why a job does not run, by the rules by which workers fetch.

        Args:
            job_id: The id of the job.

        Returns:
            All reasons that keep it from running: its time, its queue, its flags, its task, its attempts. Or that it
            runs, or that the next fetch takes it.

        Raises:
            InvalidJob: `job_id` is not an int of 64 bits.
            JobNotFound: No job has the id, or it has ended and was removed.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_job_id(job_id)
        async with self._acquire() as mine:
            return await store.explain(self._database, mine, job_id)

    async def checkup(self) -> Checkup:
        """Check the store: its server, its workers, and the laws that every consistent store obeys.

        Returns:
            The result of each check; `findings` has a sentence for each.

        Raises:
            StoreError: The database cannot be used.

        Reads all jobs, about a second for each million. If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await checkups.checkup(self._database, mine)

    async def repair(self) -> Repaired:
        """Return the jobs of workers that are gone, each with one attempt less, and remove unused key locks.

        It also counts the running jobs of queues and of the keys of limits again, and wakes those that were stranded.

        Returns:
            The returned jobs, and the numbers of removed key locks and corrected queues and keys.

        Raises:
            StoreError: The database cannot be used.

        Live workers do the same by themselves; safe while they run. If cancelled, a part of it may be done.
        """
        async with self._acquire() as mine:
            return await checkups.repair(self._database, mine)

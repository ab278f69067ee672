"""`Admin`: looks at jobs and changes them, on the client's pool or on the caller's connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from asyncq.domain.administration import (
    Counts,
    Explanation,
    WorkerInfo,
    check_change,
    check_cleanup,
    check_job_id,
    check_page,
    check_wanted,
    error_text,
    job_ids,
    kept_tasks,
    state_of,
    worker_ids,
)
from asyncq.domain.checkup import Checkup, Repaired
from asyncq.domain.errors import JobNotFound
from asyncq.domain.job import Job, check_key
from asyncq.domain.states import JobState
from asyncq.store import admin as store
from asyncq.store import checkup as checkups
from asyncq.store.callers import changing
from asyncq.store.database import CallersConnection, Connection, Database

SAFE_CLEANUP = ("GC_JOB_QUEUES", "GC_TASK_IDENTIFIERS")


class Admin:
    """Looks at jobs and changes them; `client.admin` is one.

    What changes jobs takes their ids, leaves alone what runs (but for `cancel_jobs`), ignores ids that are not there,
    and returns the jobs that it changed, in the order of their ids. With `connection=` it is part of the caller's
    transaction, which has to be open; a job that is being changed at this moment is waited for. At REPEATABLE READ and
    SERIALIZABLE a job that was changed since the transaction began raises a StoreError with `sqlstate` 40001: begin
    again.

    Args:
        database: Where the jobs are.
        acquire: Opens a connection for a call.
    """

    def __init__(self, database: Database, acquire: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self._database = database
        self._acquire = acquire

    async def cancel_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Cancel jobs: those that wait end at once, the handlers of those that run are cancelled once, without a retry.

        Args:
            ids: Which; discarded jobs are left alone.
            connection: An asyncpg connection of the caller's, in its transaction; the client's pool by default.
            autocommit: Whether `connection` may be in no transaction, where the change is committed at once; False by
                default.

        Returns:
            The jobs that were cancelled, as they were: those that run have `locked_by`. Their row and their queue stay
            until the handler has ended; for everybody else they are cancelled already.

        Raises:
            InvalidJob: `ids` is no list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.cancel_jobs(self._database, mine, chosen)

    async def complete_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """End jobs as completed that nobody runs, failed ones among them.

        Args:
            ids: Which.
            connection: An asyncpg connection of the caller's, for its transaction; the client's pool by default.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that ended, as they were.

        Raises:
            InvalidJob: `ids` is no list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.complete_jobs(self._database, mine, chosen)

    async def discard_jobs(
        self,
        ids: Iterable[int],
        error: str | None = None,
        *,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> list[Job]:
        """Let jobs fail for good that nobody runs: no attempt is left, their keys stay with them.

        Args:
            ids: Which.
            error: Their `last_error`; "Manually marked as failed" by default. What PostgreSQL cannot store is written
                as escapes, and what is longer than 16,384 characters is cut in the middle.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that have failed, as they are now.

        Raises:
            InvalidJob: `ids` is no list of ids, or `error` no text; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        chosen, said = job_ids(ids), error_text(error)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.discard_jobs(self._database, mine, chosen, said)

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
        """Change when jobs are tried that nobody runs, and how often. None leaves a field as it is, 0 is a value.

        Args:
            ids: Which.
            run_at: When they may start, with a time zone; what is due then wakes a worker.
            priority: -32768 to 32767, lower first.
            attempts: How many have failed, 0 to 32767: fewer than `max_attempts` revive a discarded job.
            max_attempts: Total attempts, 1 to 32767.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that were changed, as they are now.

        Raises:
            InvalidJob: A value is out of range, or `ids` is no list of ids; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_change(run_at, priority, attempts, max_attempts)
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.reschedule_jobs(
                self._database,
                mine,
                chosen,
                run_at=run_at,
                priority=priority,
                attempts=attempts,
                max_attempts=max_attempts,
            )

    async def retry_jobs(
        self, ids: Iterable[int], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Let jobs begin anew that have failed, for good or not: due now, with all their attempts; a worker is woken.

        Args:
            ids: Which; jobs that have never failed are left alone, as those that run are.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that will be tried again, as they are now; `last_error` stays until the next failure.

        Raises:
            InvalidJob: `ids` is no list of ids; nothing was changed.
            StoreError: The database cannot be used.

        A unique policy is not asked again: it was when the job was added. If cancelled, the outcome is unknown unless
        the caller's transaction rolls back.
        """
        chosen = job_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.retry_jobs(self._database, mine, chosen)

    async def remove_job(
        self, key: str, *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> Job | None:
        """Remove the job that has a key. One that runs cannot be: it loses its key, and is not tried again.

        Args:
            key: The job key.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The job; None if none has the key. If it runs, `locked_by` says where.

        Raises:
            InvalidJob: It cannot be a key.
            StoreError: The database cannot be used.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        check_key(key)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.remove_job(self._database, mine, key)

    async def force_unlock_workers(
        self, ids: Iterable[int | str], *, connection: CallersConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Take their claims away from workers at once, without waiting for the lease. Each claim was an attempt.

        Only for workers that are gone for certain: one that lives cancels its handlers when it hears of it, at its next
        beat at the latest, and until then its jobs may run twice at once; what they come to there is refused.

        Args:
            ids: The ids of workers, as `locked_by` and the log name them.
            connection: As in `complete_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The jobs that they held, as they are now; those that were cancelled have ended.

        Raises:
            InvalidJob: `ids` is no list of ids; nothing was changed.
            StoreError: The database cannot be used; or for ten seconds a transaction held one of the jobs that this
                role may not end, which the message says: nothing was changed.

        If cancelled, the outcome is unknown unless the caller's transaction rolls back.
        """
        chosen = worker_ids(ids)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.force_unlock_workers(self._database, mine, chosen)

    async def list_workers(self) -> list[WorkerInfo]:
        """Read who there is, in the order of the ids: the workers, and those that hold claims without being known.

        Returns:
            Each with its state and the number of its jobs. Reads all jobs: about 0.1 s for each million.

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
        """Remove what is not needed any more; safe beside adds and workers.

        Args:
            *tasks: What: `DELETE_PERMAFAILED_JOBS`, discarded jobs; `GC_TASK_IDENTIFIERS`, names of
                tasks that no job and no worker uses; `GC_JOB_QUEUES`, nothing, since queues leave nothing behind. The
                last two by default.
            task_identifiers_to_keep: Names that stay, used or not; none by default.
            connection: As in `complete_jobs`. A name then goes by the second cleanup only, since the first one has to
                be committed before.
            autocommit: As in `cancel_jobs`.

        Returns:
            How many of each were removed. Names stay while a transaction is open that was when they fell out of use:
            the next cleanup removes them.

        Raises:
            InvalidJob: A task of the cleanup is unknown, or the names are no list of names; nothing was done.
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
            The job as it is now; None if none has the key.

        Raises:
            InvalidJob: It cannot be a key.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_key(key)
        async with self._acquire() as mine:
            return await store.get_job_by_key(self._database, mine, key)

    async def list_jobs(
        self,
        *,
        state: JobState | str | None = None,
        task: str | None = None,
        queue: str | None = None,
        flag: str | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[Job]:
        """Read a page of jobs, in the order of their ids.

        Args:
            state: Only those in this state; any by default.
            task: Only those of this task.
            queue: Only those of this queue.
            flag: Only those with this flag.
            limit: How many at most, 1 to 1000; 100 by default.
            after: Only those with a greater id: the last one of the page before; 0 begins at the start.

        Returns:
            The jobs, with their payloads; fewer than `limit` on the last page only. Pages stay right while jobs come
            and go.

        Raises:
            InvalidJob: An argument is out of range, or a name cannot be one.
            StoreError: The database cannot be used.

        A page is as fast on a large table as on a small one, unless few jobs are as asked: then all up to them are
        read, about half a second for each million. If cancelled, nothing was changed: it only reads.
        """
        check_page(limit, after)
        check_wanted(task=task, queue=queue, flag=flag)
        of = None if state is None else state_of(state)
        async with self._acquire() as mine:
            return await store.list_jobs(
                self._database, mine, state=of, task=task, queue=queue, flag=flag, after=after, limit=limit
            )

    async def iter_jobs(
        self,
        *,
        state: JobState | str | None = None,
        task: str | None = None,
        queue: str | None = None,
        flag: str | None = None,
        page: int = 100,
        after: int = 0,
    ) -> AsyncGenerator[Job, None]:
        """Read jobs one by one, in the order of their ids, however many there are: a page at a time is held.

        Args:
            state: Only those in this state; any by default.
            task: Only those of this task.
            queue: Only those of this queue.
            flag: Only those with this flag.
            page: How many are read at once, 1 to 1000; 100 by default. Fewer for large payloads.
            after: Only those with a greater id; 0 begins at the start.

        Returns:
            The jobs, each as it was when its page was read. None comes twice; those that are added meanwhile come too.

        Raises:
            InvalidJob: An argument is out of range, or a name cannot be one.
            StoreError: The database cannot be used; what is left begins behind the last id.

        No snapshot and no connection is held between two pages, so that whoever reads slowly is in nobody's way. If
        cancelled, nothing was changed: it only reads.
        """
        check_page(page, after, field="page")
        last = after
        while True:
            jobs = await self.list_jobs(state=state, task=task, queue=queue, flag=flag, limit=page, after=last)
            for job in jobs:
                yield job
            if len(jobs) < page:
                return
            last = jobs[-1].id

    async def now(self) -> datetime:
        """Read the server's clock, by which jobs are due, whatever the clock of this machine shows.

        Returns:
            The instant, in UTC: with a `timedelta` added to it, a `run_at` so long from now.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.server_time(self._database, mine)

    async def counts(self, *, exact: bool = False) -> Counts:
        """Count the jobs in each state.

        Args:
            exact: Whether to count large tables too, which takes about half a second for each million jobs; False by
                default: of a table above 32 MiB (some 200,000 jobs) a sample is counted, which takes about 0.1 s.

        Returns:
            The figures, and which of them are estimates: of a large table those of what waits, above 256 MiB those of
            what runs too. What is discarded is exact below 100,000. An estimate of 0
            is no promise that there are none; `active` is at least the number that live workers named at their last
            beat.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.counts(self._database, mine, exact=exact)

    async def explain(self, job_id: int) -> Explanation:
        """Say why a job does not run, by the rules by which workers fetch.

        Args:
            job_id: Its id.

        Returns:
            All that keeps it from running: its time, its queue, its flags, its task, its attempts; or that it runs, or
            that the next fetch takes it.

        Raises:
            InvalidJob: `job_id` is no int, or has more than 64 bits.
            JobNotFound: There is none, or it has ended and was removed.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_job_id(job_id)
        async with self._acquire() as mine:
            found = await store.explain(self._database, mine, job_id)
        if found is None:
            raise JobNotFound(job_id)
        return found

    async def checkup(self) -> Checkup:
        """Look after the store: its server, its workers, and the laws that hold in every store that is whole.

        Returns:
            What was found; `findings` has a sentence for each check.

        Raises:
            StoreError: The database cannot be used.

        Reads all jobs, about a second for each million. If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await checkups.checkup(self._database, mine)

    async def repair(self) -> Repaired:
        """Return the jobs of workers that are gone, each with an attempt lost, and remove key locks that nobody uses.

        Returns:
            Which jobs, and how many key locks.

        Raises:
            StoreError: The database cannot be used.

        It is what live workers do by themselves, done now; safe beside them. If cancelled, a part of it was done.
        """
        async with self._acquire() as mine:
            return await checkups.repair(self._database, mine)

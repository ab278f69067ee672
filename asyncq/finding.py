"""The part of `Admin` that finds jobs by a filter, changes many, and reads the numbers of now."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from asyncq.domain.administration import check_wanted, checked_changes, storable_error
from asyncq.domain.finding import (
    ChangeAction,
    ChangedJobs,
    Depth,
    Depths,
    FailedJob,
    FailureGroup,
    JobFilter,
    JobPage,
    Matching,
    RunningJob,
    TaskStats,
    check_action,
    check_found,
    check_series,
)
from asyncq.domain.job import Job, check_number
from asyncq.store import finding as store
from asyncq.store.callers import changing
from asyncq.store.database import CallersConnection, Connection, Database

ANY = JobFilter()


class JobSearch:
    """Finds and changes many jobs; `client.admin` inherits it.

    Args:
        database: The database of the jobs.
        acquire: Opens a connection for a call.
    """

    def __init__(self, database: Database, acquire: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self._database = database
        self._acquire = acquire

    async def find_jobs(
        self,
        which: JobFilter = ANY,
        *,
        newest: bool = True,
        limit: int = 100,
        start: int | None = None,
        look: int = 10_000,
    ) -> JobPage:
        """Read a page of the jobs that match a filter, also of a large table in a few milliseconds.

        Args:
            which: The jobs; all that have not ended by default.
            newest: Whether the newest come first, by their ids; True by default.
            limit: How many at most, 1 to 1000; 100 by default.
            start: Where the page begins: behind this id, the `next` of the page before; at the first job by default.
            look: How many rows are read at most; 10,000 by default. If few jobs match, a page may be empty although
                more jobs match: then its `next` is not None.

        Returns:
            The jobs, with their payloads, and where the next page begins. Pages stay correct while jobs are added and
            end.

        Raises:
            InvalidJob: An argument is not valid.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_found(limit, start, look)
        text = which.text()
        async with self._acquire() as mine:
            return await store.find_jobs(self._database, mine, text, start, newest, limit, look)

    async def iter_jobs(
        self, which: JobFilter = ANY, *, newest: bool = False, page: int = 100, start: int | None = None
    ) -> AsyncGenerator[Job, None]:
        """Read all jobs that match a filter, one by one; one page at a time is in memory.

        Args:
            which: The jobs; all that have not ended by default.
            newest: Whether the newest come first, by their ids; False by default.
            page: How many are read at once, 1 to 1000; 100 by default. Use fewer for large payloads.
            start: Behind which id it begins; at the first job by default.

        Returns:
            The jobs, each as it was when its page was read. No job is repeated; jobs added meanwhile may be included.

        Raises:
            InvalidJob: An argument is not valid.
            StoreError: The database cannot be used; continue behind the last id.

        No snapshot and no connection is held between two pages, so a slow reader disturbs nobody. If cancelled,
        nothing was changed: it only reads.
        """
        while True:
            found = await self.find_jobs(which, newest=newest, limit=page, start=start)
            for job in found.jobs:
                yield job
            if (start := found.next) is None:
                return

    async def count_matching(self, which: JobFilter) -> Matching:
        """Count the jobs that match a filter, up to 10,001: the preview of a change of many.

        Args:
            which: The jobs.

        Returns:
            How many they are, by state, and the greatest id until now.

        Raises:
            InvalidJob: The filter is not valid.
            StoreError: The database cannot be used.

        It reads jobs until it has found enough, 5,000 in a statement. If cancelled, nothing was changed: it only
        reads.
        """
        text = which.text()
        async with self._acquire() as mine:
            return await store.count_matching(self._database, mine, text)

    async def change_matching(
        self,
        which: JobFilter,
        action: ChangeAction,
        up_to: int,
        *,
        limit: int = 1000,
        start: int | None = None,
        error: str | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        connection: CallersConnection | None = None,
        autocommit: bool = False,
    ) -> ChangedJobs:
        """Change the next jobs that match a filter, the oldest first, in one transaction.

        Repeat it with `start` set to the `next` of the answer before, until that is None: each step is short, and no
        step changes a job twice. A job that no longer matches when its row is locked is not changed.

        Args:
            which: The jobs.
            action: `cancel`, `complete`, `discard`, `reschedule` or `retry`, as the methods for ids; `remove` deletes
                waiting and discarded jobs, with their failed attempts.
            up_to: The greatest id that may be changed: `Matching.up_to`.
            limit: How many jobs at most, 1 to 1000; 1000 by default.
            start: Behind which id it begins; at the first job by default.
            error: With `discard`: as in `discard_jobs`.
            run_at: With `reschedule`: as in `reschedule_jobs`.
            priority: With `reschedule`.
            attempts: With `reschedule`.
            max_attempts: With `reschedule`.
            connection: As in `cancel_jobs`.
            autocommit: As in `cancel_jobs`.

        Returns:
            The ids of the changed jobs, and where the next step begins.

        Raises:
            InvalidJob: An argument is not valid; nothing was changed.
            StoreError: The database cannot be used.

        If cancelled, the outcome of this step is unknown unless the caller's transaction rolls back.
        """
        check_action(action, up_to)
        check_found(limit, start, 1)
        options = checked_changes(run_at, priority, attempts, max_attempts)
        text = which.text()
        if error is not None:
            options["error"] = storable_error(error)
        async with changing(connection, self._acquire, autocommit) as mine:
            return await store.change_matching(self._database, mine, text, action, up_to, start, limit, options)

    async def failures(self, most: int = 5000) -> list[FailureGroup]:
        """Group the newest discarded jobs by task and first line of the last error.

        Args:
            most: How many of the newest jobs are grouped, 1 to 20,000; 5,000 by default.

        Returns:
            The groups, the largest one first.

        Raises:
            InvalidJob: `most` is out of range.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_number("most", most, 1, 20_000, "22023")
        async with self._acquire() as mine:
            return await store.failures(self._database, mine, most)

    async def failed_jobs(self, before: FailedJob | None = None, *, limit: int = 50) -> list[FailedJob]:
        """Read a page of the discarded jobs, the last one to fail first.

        Args:
            before: The last job of the page before; the first page by default.
            limit: How many at most, 1 to 1000; 50 by default.

        Returns:
            The jobs, without payload, and with the first line of their last error.

        Raises:
            InvalidJob: `limit` is out of range.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_found(limit, None, 1)
        async with self._acquire() as mine:
            return await store.failed_jobs(self._database, mine, before, limit)

    async def backlog(self, tasks: Iterable[str] | None = None, *, most: int = 10_000) -> int:
        """Count the jobs that are due or run, for autoscaling.

        Args:
            tasks: Only jobs of these tasks; all by default. Of a large table these are estimated from a sample.
            most: Where the count ends, 1 to 100,000; 10,000 by default.

        Returns:
            The number. It is not 0 while a job runs or could start.

        Raises:
            InvalidJob: An argument is not valid.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_number("most", most, 1, 100_000, "22023")
        names = None if tasks is None else list(tasks)
        for name in names or ():
            check_wanted(tasks=name)
        async with self._acquire() as mine:
            return await store.backlog(self._database, mine, names, most)

    async def oldest_due(self) -> float | None:
        """Read how long the oldest due job has waited.

        Returns:
            Seconds since it was due; None if no job is due. Of very many queues and limits not all are looked at.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._acquire() as mine:
            return await store.oldest_due(self._database, mine)

    async def depths_by(self, *, queues: int = 200) -> list[Depth]:
        """Count the jobs of each task and of the fullest queues.

        Args:
            queues: How many queues at most, 0 to 10,000; 200 by default.

        Returns:
            A `Depth` for each task that has jobs, then one for each queue, the fullest one first.

        Raises:
            InvalidJob: `queues` is out of range.
            StoreError: The database cannot be used.

        Of a large table a sample is counted. If cancelled, nothing was changed: it only reads.
        """
        check_number("queues", queues, 0, 10_000, "22023")
        async with self._acquire() as mine:
            return await store.depths_by(self._database, mine, queues)

    async def running(self, *, most: int = 1000) -> list[RunningJob]:
        """Read the jobs that workers have claimed.

        Args:
            most: How many at most, 1 to 10,000; 1,000 by default.

        Returns:
            The jobs, the longest claimed first.

        Raises:
            InvalidJob: `most` is out of range.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_number("most", most, 1, 10_000, "22023")
        async with self._acquire() as mine:
            return await store.running(self._database, mine, most)

    async def stats(
        self, since: datetime | None = None, *, step: timedelta = timedelta(minutes=1), task: str | None = None
    ) -> list[TaskStats]:
        """Read how runs ended over time, and how long they took and waited.

        Args:
            since: From when on; for the last hour by default. Minutes are kept for three hours, quarters of an hour
                for a day, hours for 30 days.
            step: The length of a step, 1 minute to 30 days; a minute by default.
            task: Only this task; each task by default; all as one for an empty text.

        Returns:
            The numbers of each step and task, in the order of time. Workers write them every ten seconds.

        Raises:
            InvalidJob: An argument is not valid.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_series(since, step)
        check_wanted(task=task)
        async with self._acquire() as mine:
            return await store.stats(self._database, mine, since, step.total_seconds(), task)

    async def depths(self, since: datetime | None = None, *, step: timedelta = timedelta(minutes=1)) -> list[Depths]:
        """Read how many jobs there were over time, and how busy the workers were.

        Args:
            since: From when on; for the last hour by default. Each ten seconds are kept for a day, minutes for 30 days.
            step: The length of a step, 1 second to 30 days; a minute by default.

        Returns:
            The means of each step, in the order of time.

        Raises:
            InvalidJob: An argument is not valid.
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        check_series(since, step)
        async with self._acquire() as mine:
            return await store.depths(self._database, mine, since, step.total_seconds())

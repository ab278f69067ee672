"""`SyncClient`: adds jobs, reads and changes them, for programs without an event loop."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Unpack, cast, overload
from weakref import WeakKeyDictionary

import msgspec

from asyncq.domain.adding import NOTHING, accepted, make_spec, make_specs
from asyncq.domain.administration import check_job_id, checked_changes, job_ids, storable_error
from asyncq.domain.around import PassedOn, SyncAddMiddleware, check_sync_middleware
from asyncq.domain.codec import Codec, Envelopes
from asyncq.domain.deduplication import DEFAULT_WINDOW, check_window
from asyncq.domain.errors import ConfigurationError, JobNotFound
from asyncq.domain.flow import Flow, jobs_of
from asyncq.domain.job import Added, Job, JobOptions, JobSpec, check_key
from asyncq.domain.limit import Queue
from asyncq.domain.options import switch, whole_number
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD
from asyncq.domain.task import PayloadT, Registry, Takes, TakesNothing, Task
from asyncq.store import admin as store
from asyncq.store.adapters.sync_kinds import PsycopgPool, SyncAddOptions, SyncConnection, sync_adapter_of
from asyncq.store.adapters.synchronous import SyncAdapter, at_once
from asyncq.store.add import add_jobs
from asyncq.store.database import Connection
from asyncq.store.psycopg_source import PsycopgSource
from asyncq.store.roles import WayIn, way_in_of
from asyncq.store.schema import Schema
from asyncq.store.statements import DEFAULT_SCHEMA

AddSpecs = Callable[[Sequence[JobSpec], SyncAdapter | None], list[Added]]


class SyncClient:
    """Adds jobs, reads and changes them, without an event loop: for Flask, Django, scripts.

    Each call runs on the connection that it is given, in the transaction of its caller. Without a connection it runs on
    one of its own, and is committed when it returns. A client keeps nothing open: it needs no `close()`, and threads
    and forked processes may share it.

    Args:
        dsn: The database, for calls without a connection: each opens one by psycopg. None (the default) if every call
            gets a connection.
        pool: A `ConnectionPool` of psycopg_pool, for such calls, in the place of a DSN.
        schema: The schema's name; `asyncq` by default.
        tasks: The tasks that exist. Adds by name then use their defaults and are checked against their types; other
            names are refused. None (the default) accepts any name. The list may have the queues of a worker too.
        max_payload: The largest payload in bytes; 1 MiB by default, at most 16 MiB.
        idempotency_window: How long an idempotency key is valid after its first use; 24 hours by default, at most 366
            days. Until then a row remembers the job, even after its end.
        middleware: Plain functions around its adds, the first one outermost; none by default.
        codec: As for `Client`.
        use_local_time: Whether jobs without a `run_at` are due by the clock of this process at the time of the call;
            False by default: by the clock of the server.

    Raises:
        ConfigurationError: An option is not valid, or a DSN is given and psycopg is not installed.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: PsycopgPool | None = None,
        schema: str = DEFAULT_SCHEMA,
        tasks: Iterable[Task[...] | Queue] | None = None,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
        idempotency_window: timedelta = DEFAULT_WINDOW,
        middleware: Sequence[SyncAddMiddleware] = (),
        codec: Codec | None = None,
        use_local_time: bool = False,
    ) -> None:
        self._max_payload = whole_number("max_payload", max_payload, 1, LARGEST_PAYLOAD)
        self._schema = Schema(schema, None if codec is None else Envelopes(codec, self._max_payload))
        self._source = None if dsn is None and pool is None else PsycopgSource(dsn, pool, self._schema.schema)
        self._registry = None if tasks is None else Registry(tasks, encoded=codec is not None)
        self._window = check_window(idempotency_window)
        self._use_local_time = use_local_time
        # An engine, a connection or the own source -> the function by which its role may add jobs.
        self._ways_in: WeakKeyDictionary[object, WayIn] = WeakKeyDictionary()
        self._add_specs: AddSpecs = self._add
        for function in reversed(check_sync_middleware(middleware)):
            self._add_specs = partial(self._add_within, function, self._add_specs)

    @overload
    def add_job(self, task: Takes[PayloadT, Any], payload: PayloadT, /, **options: Unpack[SyncAddOptions]) -> Added: ...
    @overload
    def add_job(self, task: TakesNothing[Any], /, **options: Unpack[SyncAddOptions]) -> Added: ...
    @overload
    def add_job(self, task: str, payload: Any = None, /, **options: Unpack[SyncAddOptions]) -> Added: ...
    @overload
    def add_job(self, task: JobSpec, /, **options: Unpack[SyncAddOptions]) -> Added: ...
    def add_job(
        self,
        task: Any,
        payload: Any = NOTHING,
        /,
        *,
        connection: SyncConnection | None = None,
        autocommit: bool = False,
        **options: Unpack[JobOptions],
    ) -> Added:
        """Add a job.

        Args:
            task: A task, the name of one, or a spec made with `task.job(...)`.
            payload: The argument of the handler's first parameter; with a name, the payload object (`{}` by default).
            connection: A connection of the caller, in a transaction: the job is added in it, and workers are notified
                when it commits. It is a `Session`, `Connection` or `scoped_session` of SQLAlchemy, a `Connection` or
                `Cursor` of psycopg, `django.db.connection`, or an alias of Django. SQLAlchemy and psycopg begin a
                transaction by themselves. Outside of Django's `atomic` the job is committed at once. None (the default)
                uses a connection of the client, and commits.
            autocommit: Whether `connection` may be outside of a transaction, where the job is committed at once; False
                by default, which refuses such a connection, except Django's.
            **options: See `JobOptions`; None means the task's default.

        Returns:
            The id of the job and the outcome of the add: it may be the id of an earlier job.

        Raises:
            InvalidJob: The job breaks a rule; `code`, `field`, `limit` and `length` name it.
            DuplicateJob: Its unique policy refuses it, because of another job. A transaction of the caller continues.
            UnknownTask: The client was given tasks, and none has this name.
            TransactionUnusable: The caller's connection is in no transaction, or in one that is aborted or read only.
            StoreUnavailable: The database cannot be used, or the connection broke; `outcome` says whether the job may
                have been added. The call was made once.
            StoreError: The database refused; the caller's transaction is aborted, as after any error of PostgreSQL.
        """
        spec = make_spec(task, payload, options, registry=self._registry, strict=True, max_payload=self._max_payload)
        (added,) = self._add_specs([spec], self._callers(connection, autocommit))
        return accepted(added)

    def add_jobs(
        self, specs: Sequence[JobSpec], *, connection: SyncConnection | None = None, autocommit: bool = False
    ) -> list[Added]:
        """Add jobs in one round trip and one transaction, as if one by one; ids follow the order of the specs.

        Args:
            specs: The jobs, made with `task.job(...)`.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The outcome of each add, in the order of the specs. A job that its policy refuses is not an error here.

        Raises:
            InvalidJob: A job breaks a rule, or the jobs together exceed 256 MiB; none was added.
            StoreError: As in `add_job`.
        """
        checked = make_specs(specs, registry=self._registry, strict=True, max_payload=self._max_payload)
        return self._add_specs(checked, self._callers(connection, autocommit))

    def add_workflow(
        self, flow: Flow[Any], *, connection: SyncConnection | None = None, autocommit: bool = False
    ) -> Added:
        """Add all jobs of a workflow in one transaction.

        Args:
            flow: The workflow, made with `chain` or `group(...).then(...)`.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The id of its last job.

        Raises:
            InvalidJob: As in `add_jobs`. Or the client has a codec, and results are passed on.
            StoreError: As in `add_job`.
        """
        return self.add_jobs(jobs_of(flow), connection=connection, autocommit=autocommit)[-1]

    def get_job(self, job_id: int, *, connection: SyncConnection | None = None) -> Job:
        """Read a job.

        Args:
            job_id: The id of the job.
            connection: As in `add_job`; its transaction may have added the job.

        Returns:
            The job as it is now, with its failed attempts. A job that has ended has `ended_at`, and its result, if it
            is kept.

        Raises:
            InvalidJob: `job_id` is not an int of 64 bits.
            JobNotFound: No job has the id, or it has ended and is not kept.
            StoreError: The database cannot be used.
        """
        check_job_id(job_id)
        with self._lent(None if connection is None else sync_adapter_of(connection, None)) as mine:
            job = at_once(store.get_job(self._schema, mine, job_id))
        if job is None:
            raise JobNotFound(job_id)
        return job

    def remove_job(self, key: str, *, connection: SyncConnection | None = None, autocommit: bool = False) -> Job | None:
        """Remove the job that has a key. A running job loses its key instead, and is not retried.

        Args:
            key: The job key.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The job; None if no job has the key. For a running job, `locked_by` is its worker.

        Raises:
            InvalidJob: The key is not valid.
            StoreError: The database cannot be used.
        """
        check_key(key)
        with self._lent(self._callers(connection, autocommit)) as mine:
            return at_once(store.remove_job(self._schema, mine, key))

    def cancel_jobs(
        self, ids: Iterable[int], *, connection: SyncConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Cancel jobs: waiting jobs end at once, running handlers are cancelled once; none of them is retried.

        Args:
            ids: The ids of the jobs; discarded and unknown jobs are not changed.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The cancelled jobs, as they were before, in the order of their ids. Running ones have `locked_by`: they keep
            their row and their queue until the handler has ended.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: The database cannot be used. Its `sqlstate` is 40001 if the caller's transaction is REPEATABLE
                READ or SERIALIZABLE, and a job was changed since it began: start the transaction again.
        """
        return self._administer("cancel", ids, self._callers(connection, autocommit))

    def complete_jobs(
        self, ids: Iterable[int], *, connection: SyncConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """End jobs that do not run as completed, also those that failed.

        Args:
            ids: The ids of the jobs.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The jobs that ended, as they were before.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: As in `cancel_jobs`.
        """
        return self._administer("complete", ids, self._callers(connection, autocommit))

    def permanently_fail_jobs(
        self,
        ids: Iterable[int],
        error: str | None = None,
        *,
        connection: SyncConnection | None = None,
        autocommit: bool = False,
    ) -> list[Job]:
        """Discard jobs that do not run: no attempt is left, and they keep their keys. `Admin` calls it `discard_jobs`.

        Args:
            ids: The ids of the jobs.
            error: Their `last_error`; "Manually marked as failed" by default.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The discarded jobs, as they are now.

        Raises:
            InvalidJob: `ids` is not a list of ids, or `error` is not a text; nothing was changed.
            StoreError: As in `cancel_jobs`.
        """
        return self._administer("discard", ids, self._callers(connection, autocommit), error=storable_error(error))

    def reschedule_jobs(
        self,
        ids: Iterable[int],
        *,
        run_at: datetime | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        max_attempts: int | None = None,
        connection: SyncConnection | None = None,
        autocommit: bool = False,
    ) -> list[Job]:
        """Change the time, the priority and the attempts of jobs that do not run; None leaves a field unchanged.

        Args:
            ids: The ids of the jobs.
            run_at: The earliest start, with a time zone; a job that is due then wakes a worker.
            priority: -32768 to 32767, lower first.
            attempts: The number of failed attempts, 0 to 32767; below `max_attempts` a discarded job runs again.
            max_attempts: The number of attempts in all, 1 to 32767.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The changed jobs, as they are now.

        Raises:
            InvalidJob: A value is out of range, or `ids` is not a list of ids; nothing was changed.
            StoreError: As in `cancel_jobs`.
        """
        given = checked_changes(run_at, priority, attempts, max_attempts)
        return self._administer("reschedule", ids, self._callers(connection, autocommit), **given)

    def retry_jobs(
        self, ids: Iterable[int], *, connection: SyncConnection | None = None, autocommit: bool = False
    ) -> list[Job]:
        """Retry failed and discarded jobs: they are due at once, with all their attempts, and a worker is woken.

        Args:
            ids: The ids of the jobs; running jobs, and jobs without a failed attempt, are not changed.
            connection: As in `add_job`.
            autocommit: As in `add_job`.

        Returns:
            The jobs that will be retried, as they are now; `last_error` stays until the next failure.

        Raises:
            InvalidJob: `ids` is not a list of ids; nothing was changed.
            StoreError: As in `cancel_jobs`.
        """
        return self._administer("retry", ids, self._callers(connection, autocommit))

    def _administer(self, act: store.Act, ids: Any, given: SyncAdapter | None, **changes: Any) -> list[Job]:
        chosen = job_ids(ids)
        with self._lent(given) as mine:
            return at_once(store.administer(self._schema, mine, act, chosen, **changes))

    def _add_within(
        self, middleware: SyncAddMiddleware, inner: AddSpecs, specs: Sequence[JobSpec], given: SyncAdapter | None
    ) -> list[Added]:
        check = partial(make_specs, registry=self._registry, strict=True, max_payload=self._max_payload)
        passed_on = PassedOn(middleware, specs, check)

        def add(replaced: Sequence[JobSpec]) -> list[Added]:
            with passed_on.adding(replaced) as checked:
                return passed_on.keep(inner(checked, given))

        middleware(specs, add)
        return passed_on.results()

    def _add(self, specs: Sequence[JobSpec], given: SyncAdapter | None) -> list[Added]:
        if self._use_local_time:
            now = datetime.now(UTC)
            specs = [spec if spec.run_at else msgspec.structs.replace(spec, run_at=now) for spec in specs]
        if given is not None:
            return at_once(self._add_on(given, specs))
        with self._own().begun() as own:
            return at_once(self._add_on(own, specs))

    async def _add_on(self, adapter: SyncAdapter, specs: Sequence[JobSpec]) -> list[Added]:
        way = await way_in_of(adapter, self._schema.schema, self._ways_in)
        return await add_jobs(self._schema, cast(Connection, adapter), specs, way, self._window)

    def _callers(self, connection: SyncConnection | None, autocommit: bool) -> SyncAdapter | None:
        """The adapter of the connection that a caller gave for a change."""
        if connection is not None:
            return sync_adapter_of(connection, switch("autocommit", autocommit))
        if switch("autocommit", autocommit):
            raise ConfigurationError("autocommit=True needs connection=: without one each change is committed at once")
        return None

    def _own(self) -> PsycopgSource:
        if self._source is None:
            raise ConfigurationError(
                "this SyncClient was made without a DSN or a pool: give the call a connection, or write SyncClient(dsn)"
            )
        return self._source

    @contextmanager
    def _lent(self, given: SyncAdapter | None) -> Generator[Connection]:
        """Yield the caller's connection if there is one, else one of the client's in a transaction of its own."""
        if given is not None:
            # An adapter has the one method of a connection that these functions of the store use.
            yield cast(Connection, given)
            return
        with self._own().begun() as own:
            yield cast(Connection, own)

"""The kinds of synchronous connections: each has the same transactions, results and errors."""

import json
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import django.db
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from asyncq import (
    Client,
    ConfigurationError,
    DuplicateJob,
    InvalidJob,
    JobNotFound,
    JobSpec,
    SchemaMissing,
    StoreError,
    StoreUnavailable,
    SyncClient,
    TransactionUnusable,
    UniquePolicy,
    task,
)
from tests.support.sync_callers import AUTOCOMMIT, ISOLATION, KINDS, engine_of, undone, use_django

# No event loop runs during these tests; this lets them use the fixtures that need one.
pytestmark = pytest.mark.usefixtures("anyio_backend")

every_kind = pytest.mark.parametrize("kind", KINDS)
# One for each library; what depends on the library alone is tried with these.
each_library = pytest.mark.parametrize("kind", ["sqlalchemy session", "psycopg cursor", "django alias"])
ODD = 'a "quoted" \\ text, with {braces}, 50 % and :name, %(p1)s, $1, \U0001f600'


@task(unique=UniquePolicy(keys=["args"]))
def report(year: int, note: str = "") -> None:
    """A job with a policy."""


@pytest.fixture
def jobs(dsn: str, schema: str) -> SyncClient:
    """A client whose own connections see only what is committed."""
    return SyncClient(dsn, schema=schema)


def exists(jobs: SyncClient, job_id: int) -> bool:
    """Whether others see a job."""
    try:
        return jobs.get_job(job_id).id == job_id
    except JobNotFound:
        return False


@every_kind
def test_jobs_follow_the_callers_transaction(jobs: SyncClient, dsn: str, kind: str) -> None:
    """Also if the add is its first statement. A savepoint that is rolled back takes its jobs with it."""
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        lost = jobs.add_job(report.job(2025), connection=caller.connection)
        during = jobs.get_job(lost.id, connection=caller.connection)
        caller.rollback()

        caller.begin()
        kept = jobs.add_job(report.job(2026), connection=caller.connection)
        with undone(caller):
            undone_ids = [each.id for each in jobs.add_jobs([report.job(2027)], connection=caller.connection)]
        before = exists(jobs, kept.id)
        caller.commit()

        assert (lost.id, '{"year":2025}') == (during.id, during.payload)
        assert (False, True) == (before, exists(jobs, kept.id))
        assert [False, False] == [exists(jobs, gone) for gone in [lost.id, *undone_ids]]


@every_kind
def test_every_kind_stores_and_returns_the_same(jobs: SyncClient, dsn: str, kind: str) -> None:
    """Texts are stored as they are. The transaction continues after a job that was refused."""
    specs = [
        JobSpec(task="plain"),
        report.job(2026, ODD).with_options(
            queue=ODD, flags=[ODD], job_key=ODD, meta={ODD: ODD}, priority=-5, force=True
        ),
        report.job(2026, ODD),
    ]
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        added = jobs.add_jobs(specs, connection=caller.connection)
        with pytest.raises(DuplicateJob) as caught:
            jobs.add_job(report.job(2026, ODD), connection=caller.connection)
        one = jobs.add_job("plain", {"text": ODD}, connection=caller.connection, queue=ODD)
        caller.commit()
    first, keyed, single = [jobs.get_job(each.id) for each in (added[0], added[1], one)]

    assert ["added", "added", "rejected"] == [each.outcome for each in added]
    assert (added[1].id, "available") == (caught.value.existing_id, caught.value.existing_state)
    assert [None, ODD, ODD] == [job.queue for job in (first, keyed, single)]
    assert ((ODD,), ODD, {ODD: ODD}, -5) == (keyed.flags, keyed.key, keyed.meta, keyed.priority)


@each_library
def test_jobs_are_changed_in_the_callers_transaction(jobs: SyncClient, dsn: str, kind: str) -> None:
    """Each act returns the jobs, and is undone with the rest."""
    ids = [each.id for each in jobs.add_jobs([JobSpec(task="plain", job_key=f"k{number}") for number in range(5)])]
    with KINDS[kind](dsn, None) as caller:
        here: dict[str, Any] = {"connection": caller.connection}
        caller.begin()
        changed = [
            *jobs.reschedule_jobs(ids[:2], priority=7, **here),
            *jobs.permanently_fail_jobs([ids[0]], "no \U0001f600", **here),
            *jobs.retry_jobs([ids[0]], **here),
            *jobs.complete_jobs([ids[1]], **here),
            *jobs.cancel_jobs([ids[2], ids[2]], **here),
            jobs.remove_job("k3", **here),
            jobs.remove_job("k3", **here),
        ]
        nothing = jobs.cancel_jobs([], **here)
        caller.rollback()

    assert [*ids[:2], ids[0], ids[0], ids[1], ids[2], ids[3], None] == [job and job.id for job in changed]
    assert (7, "discarded", "no \U0001f600") == (changed[0].priority, changed[2].state, changed[2].last_error)
    assert ([], [0] * 5) == (nothing, [jobs.get_job(job_id).priority for job_id in ids])


@every_kind
def test_without_a_transaction_a_change_needs_autocommit(jobs: SyncClient, dsn: str, kind: str) -> None:
    """It would be committed at once. Django's users expect that, so there it needs no word."""
    with KINDS[kind](dsn, AUTOCOMMIT) as caller:
        if "django" in kind:
            assert exists(jobs, jobs.add_job("plain", connection=caller.connection).id)
        else:
            with pytest.raises(TransactionUnusable, match=r"in no transaction.*say autocommit=True"):
                jobs.add_job("plain", connection=caller.connection)
        added = jobs.add_job("plain", connection=caller.connection, autocommit=True)

        assert exists(jobs, added.id)
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        with pytest.raises(ConfigurationError, match="in a transaction: its commit decides"):
            jobs.add_job("plain", connection=caller.connection, autocommit=True)
        caller.rollback()


@every_kind
def test_an_older_snapshot_is_a_conflict(jobs: SyncClient, dsn: str, kind: str) -> None:
    """The caller starts the transaction again."""
    with KINDS[kind](dsn, ISOLATION) as caller:
        caller.begin()
        caller.run("select 1")
        jobs.add_job("plain", job_key="k")
        with pytest.raises(StoreError) as caught:
            jobs.add_job("plain", job_key="k", connection=caller.connection)
        with pytest.raises(TransactionUnusable, match="roll it back first"):
            jobs.add_job("plain", connection=caller.connection)
        caller.rollback()

        assert "40001" == caught.value.sqlstate


@every_kind
def test_a_connection_that_broke_is_reported(jobs: SyncClient, dsn: str, schema: str, kind: str) -> None:
    """No error of a library leaves asyncq."""
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        caller.run(f"set application_name = 'caller of {schema}'")
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
                [f"caller of {schema}"],
            )
        with pytest.raises(StoreUnavailable) as caught:
            jobs.add_job("plain", connection=caller.connection)
        with pytest.raises(StoreError):
            jobs.add_job("plain", connection=caller.connection)
        with suppress(psycopg.Error):
            caller.rollback()

        assert "unknown" == caught.value.outcome


@each_library
def test_errors_of_the_server_are_the_same(dsn: str, schema: str, kind: str) -> None:
    """The library's error carries the code."""
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        caller.run("set transaction read only")
        with pytest.raises(TransactionUnusable, match="read only"):
            SyncClient(schema=schema).add_job("plain", connection=caller.connection)
        caller.rollback()

        caller.begin()
        with pytest.raises(SchemaMissing, match="run `asyncq migrate --schema nowhere`"):
            SyncClient(schema="nowhere").add_job("plain", connection=caller.connection)
        caller.rollback()


@each_library
def test_no_error_holds_the_payload(jobs: SyncClient, dsn: str, kind: str) -> None:
    """SQLAlchemy appends the parameters of the statement to its errors, and errors are logged with their causes."""
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        caller.run("set transaction read only")
        with pytest.raises(TransactionUnusable) as caught:
            jobs.add_job("plain", {"card": "4111"}, connection=caller.connection)
        caller.rollback()

    said = "".join(traceback.format_exception(caught.value))
    assert "direct cause" in said
    assert "4111" not in said.replace('{"card": "4111"}', "the line of the call")


@each_library
def test_workers_are_notified_by_the_commit(jobs: SyncClient, dsn: str, schema: str, kind: str) -> None:
    """A worker that was woken before would not find the job."""
    with psycopg.connect(dsn, autocommit=True) as listener, KINDS[kind](dsn, None) as caller:
        listener.execute(f"select pg_advisory_lock({schema}._lock_space(), 0)")
        listener.execute(f'listen "{schema}:jobs"')
        caller.begin()
        jobs.add_job("plain", connection=caller.connection)
        before = list(listener.notifies(timeout=0))
        caller.commit()

        assert ([], 1) == (before, len(list(listener.notifies(timeout=20, stop_after=1))))


@each_library
def test_each_thread_has_its_own_transaction(jobs: SyncClient, dsn: str, kind: str) -> None:
    """Threads share the client, which keeps nothing of a call."""

    def add(number: int) -> tuple[int, bool]:
        with KINDS[kind](dsn, None) as caller:
            caller.begin()
            added = jobs.add_job("plain", {"number": number}, connection=caller.connection)
            (caller.commit if number % 2 else caller.rollback)()
            return added.id, bool(number % 2)

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(add, range(8)))

    assert [is_kept for _, is_kept in done] == [exists(jobs, job_id) for job_id, _ in done]


async def test_a_session_of_run_sync_takes_jobs_too(client: Client, dsn: str, schema: str) -> None:
    """Synchronous code of an asynchronous program has a plain `Session`, over asyncpg."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    jobs = SyncClient(schema=schema)
    async with AsyncSession(engine) as session:
        added = await session.run_sync(lambda given: jobs.add_job("plain", {"text": ODD}, connection=given))
        await session.commit()
    await engine.dispose()

    assert ODD in json.loads((await client.get_job(added.id)).payload)["text"]


def test_a_psycopg_connection_with_autocommit_may_open_a_transaction(jobs: SyncClient, dsn: str) -> None:
    """As one of asyncpg does."""
    with KINDS["psycopg connection"](dsn, AUTOCOMMIT) as caller:
        with caller.connection.transaction():
            added = jobs.add_job("plain", connection=caller.connection)
            before = exists(jobs, added.id)

        assert (False, True) == (before, exists(jobs, added.id))


def test_the_connection_of_the_thread_is_taken_from_django(jobs: SyncClient, dsn: str) -> None:
    """`django.db.connection` is a proxy. A transaction that has to be rolled back is reported as one of others is."""
    use_django(dsn)
    try:
        with django.db.transaction.atomic():
            added = jobs.add_job("plain", connection=django.db.connection)
            django.db.transaction.set_rollback(True)
            with pytest.raises(TransactionUnusable, match="roll it back first"):
                jobs.add_job("plain", connection=django.db.connection)
    finally:
        django.db.connection.close()

    assert not exists(jobs, added.id)


def test_a_server_that_cannot_be_reached_is_reported(dsn: str) -> None:
    """The library connects with the add; nothing was sent."""
    use_django(dsn)
    outcomes = []
    with engine_of("postgresql://u@127.0.0.1:1/d") as engine, Session(engine) as session:
        for given in (session, "nowhere"):
            with pytest.raises(StoreUnavailable, match="PostgreSQL cannot be reached") as caught:
                SyncClient().add_job("t", connection=given)
            outcomes.append(caught.value.outcome)

    assert ["not_sent", "not_sent"] == outcomes


@each_library
def test_a_job_that_breaks_a_rule_is_refused_before_any_statement(jobs: SyncClient, dsn: str, kind: str) -> None:
    """The caller's transaction continues."""
    with KINDS[kind](dsn, None) as caller:
        caller.begin()
        with pytest.raises(InvalidJob, match="priority"):
            jobs.add_job("plain", priority=40_000, connection=caller.connection)
        with pytest.raises(InvalidJob, match="ids must be a list"):
            jobs.cancel_jobs("1", connection=caller.connection)  # type: ignore[arg-type]
        added = jobs.add_job("plain", connection=caller.connection)
        caller.commit()

    assert exists(jobs, added.id)

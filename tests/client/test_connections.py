"""The kinds of connections that callers give: each has the same transactions, results and errors."""

import asyncpg
import pytest

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
    TransactionUnusable,
    UniquePolicy,
    task,
)
from asyncq.store.add import add_jobs
from asyncq.store.callers import check_transaction
from asyncq.store.database import Database
from tests.support.callers import AUTOCOMMIT, ISOLATION, KINDS, undone
from tests.support.ear import Ear
from tests.support.roles import three_roles
from tests.support.session import session

every_kind = pytest.mark.parametrize("kind", KINDS)
# One for each library; what depends on the library alone is tried with these.
each_library = pytest.mark.parametrize(
    "kind", ["asyncpg connection", "sqlalchemy session, asyncpg", "sqlalchemy session, psycopg", "psycopg cursor"]
)
ODD = 'a "quoted" \\ text, with {braces}, 50 % and :name, %(p1)s, $1, \U0001f600'


@task(unique=UniquePolicy(keys=["args"]))
async def report(year: int, note: str = "") -> None:
    """A job with a policy."""


async def ids(client: Client) -> list[int]:
    """The jobs that others see."""
    return [job.id async for job in client.admin.iter_jobs()]


@every_kind
async def test_jobs_follow_the_callers_transaction(client: Client, dsn: str, kind: str) -> None:
    """Also if the add is its first statement. A savepoint that is rolled back takes its jobs with it."""
    async with KINDS[kind](dsn, None) as caller:
        await caller.begin()
        lost = await client.add_job(report.job(2025), connection=caller.connection)
        during = await client.get_job(lost.id, connection=caller.connection)
        await caller.rollback()

        await caller.begin()
        kept = await client.add_job(report.job(2026), connection=caller.connection)
        async with undone(caller):
            await client.add_jobs([report.job(2027), report.job(2028)], connection=caller.connection)
        before = await ids(client)
        await caller.commit()

        assert (lost.id, '{"year":2025}') == (during.id, during.payload)
        assert ([], [kept.id]) == (before, await ids(client))
        with pytest.raises(JobNotFound):
            await client.get_job(lost.id)


@every_kind
async def test_every_kind_stores_and_returns_the_same(client: Client, dsn: str, kind: str) -> None:
    """Texts and arrays of texts are sent as they are. The transaction continues after a job that was refused."""
    specs = [
        JobSpec(task="plain"),
        JobSpec(task="keyed", queue=ODD, flags=(ODD,), job_key=ODD).with_options(meta={ODD: ODD}, priority=-5),
        report.job(2026, ODD),
        report.job(2026, ODD),
        JobSpec(task="plain", queue="null"),
    ]
    async with KINDS[kind](dsn, None) as caller:
        await caller.begin()
        added = await client.add_jobs(specs, connection=caller.connection)
        with pytest.raises(DuplicateJob) as caught:
            await client.add_job(report.job(2026, ODD), connection=caller.connection)
        one = await client.add_job("plain", {"text": ODD}, connection=caller.connection, queue=ODD)
        await caller.commit()
    first, keyed, queued, single = [await client.get_job(each.id) for each in (added[0], added[1], added[4], one)]

    assert ["added", "added", "added", "rejected", "added"] == [each.outcome for each in added]
    assert (added[2].id, "available") == (caught.value.existing_id, caught.value.existing_state)
    assert [None, ODD, "null", ODD] == [job.queue for job in (first, keyed, queued, single)]
    assert ((ODD,), ODD, {ODD: ODD}, -5) == (keyed.flags, keyed.key, keyed.meta, keyed.priority)


@every_kind
async def test_without_a_transaction_a_change_needs_autocommit(client: Client, dsn: str, kind: str) -> None:
    """It would be committed at once. In a transaction, on the other hand, autocommit has no meaning."""
    async with KINDS[kind](dsn, AUTOCOMMIT) as caller:
        with pytest.raises(TransactionUnusable, match=r"in no transaction.*say autocommit=True"):
            await client.add_job("plain", connection=caller.connection)
        refused = await ids(client)
        added = await client.add_job("plain", connection=caller.connection, autocommit=True)
        found = await client.get_job(added.id, connection=caller.connection)

        assert ([], [added.id], added.id) == (refused, await ids(client), found.id)
    async with KINDS[kind](dsn, None) as caller:
        await caller.begin()
        with pytest.raises(ConfigurationError, match="in a transaction: its commit decides"):
            await client.add_job("plain", connection=caller.connection, autocommit=True)
        await caller.rollback()


@every_kind
async def test_an_older_snapshot_is_a_conflict(client: Client, dsn: str, kind: str) -> None:
    """The caller starts the transaction again."""
    async with KINDS[kind](dsn, ISOLATION) as caller:
        await caller.begin()
        await caller.run("select 1")
        await client.add_job("plain", job_key="k")
        with pytest.raises(StoreError) as caught:
            await client.add_job("plain", job_key="k", connection=caller.connection)
        await caller.rollback()

        assert "40001" == caught.value.sqlstate


@every_kind
async def test_a_connection_that_broke_is_reported(
    client: Client, dsn: str, db: asyncpg.Connection, schema: str, kind: str
) -> None:
    """No driver's error leaves asyncq."""
    async with KINDS[kind](dsn, None) as caller:
        await caller.begin()
        await caller.run(f"set application_name = 'caller of {schema}'")
        where = f"application_name = 'caller of {schema}'"
        await db.execute(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {where}")
        with pytest.raises(StoreUnavailable, match=r"connection|terminat"):
            await client.add_job("plain", connection=caller.connection)
        with pytest.raises(StoreUnavailable if not kind.startswith("sql") else StoreError):
            await client.add_job("plain", connection=caller.connection)


@every_kind
async def test_errors_of_the_server_are_the_same(client: Client, dsn: str, schema: str, kind: str) -> None:
    """The driver's error carries the code and the field. The transaction is aborted then, as after any error."""
    async with KINDS[kind](dsn, None) as caller:
        await caller.begin()
        given = check_transaction(caller.connection, autocommit=False)
        assert given is not None
        with pytest.raises(InvalidJob) as caught:
            await add_jobs(Database(dsn, schema), given, [JobSpec(task="t" * 129)])
        with pytest.raises(TransactionUnusable, match="roll it back first"):
            await client.add_job("plain", connection=caller.connection)
        await caller.rollback()

        await caller.begin()
        await caller.run("set transaction read only")
        with pytest.raises(TransactionUnusable, match="read only"):
            await client.add_job("plain", connection=caller.connection)
        await caller.rollback()

        await caller.begin()
        with pytest.raises(SchemaMissing, match="run `asyncq migrate --schema nowhere`"):
            await Client(dsn, schema="nowhere").add_job("plain", connection=caller.connection)
        await caller.rollback()

        assert ("GWBID", "identifier") == (caught.value.code, caught.value.field)
        assert "identifier is 129 characters long" in str(caught.value)


@each_library
async def test_workers_are_notified_by_the_commit(client: Client, dsn: str, schema: str, kind: str) -> None:
    """A worker that was woken before would not find the job."""
    async with session(dsn, schema) as listener, KINDS[kind](dsn, None) as caller:
        ear = Ear(listener)
        await ear.open()
        await caller.begin()
        await client.add_job("plain", connection=caller.connection)
        before = list(await ear.received())
        await caller.commit()

        assert ([], [(f"{schema}:jobs", "")]) == (before, await ear.received())


async def test_a_role_that_may_only_enqueue_adds_on_every_kind(dsn: str) -> None:
    """Which function it may call is read for the role of the connection, not for the client's."""
    outcomes = []
    async with three_roles(dsn) as roles, Client(roles.dsn_of(roles.worker), schema=roles.schema) as client:
        for kind in ("sqlalchemy session, asyncpg", "sqlalchemy connection, psycopg", "psycopg connection"):
            async with KINDS[kind](dsn, None) as caller:
                await caller.run(f"set role {roles.enqueuer}")
                first = await client.add_job(report.job(2026), connection=caller.connection)
                again = await client.add_jobs([report.job(2026)], connection=caller.connection)
                outcomes.append((first.outcome, again[0].outcome, again[0].existing_id == first.id))
                await caller.rollback()

    assert [("added", "rejected", True)] * 3 == outcomes


async def test_a_client_that_is_not_open_adds_on_a_session(client: Client, dsn: str, schema: str) -> None:
    """A service may use one only with connections of its own."""
    async with KINDS["sqlalchemy session, asyncpg"](dsn, None) as caller:
        added = await Client(dsn, schema=schema).add_job("plain", connection=caller.connection)
        await caller.commit()

    assert [added.id] == await ids(client)


async def test_a_psycopg_connection_that_was_closed_is_unavailable(client: Client, dsn: str) -> None:
    """Nothing was sent."""
    async with KINDS["psycopg connection"](dsn, None) as caller:
        await caller.connection.close()
        with pytest.raises(StoreUnavailable, match="is closed") as caught:
            await client.add_job("plain", connection=caller.connection)

    assert "not_sent" == caught.value.outcome


async def test_a_psycopg_connection_with_autocommit_may_open_a_transaction(client: Client, dsn: str) -> None:
    """As one of asyncpg does."""
    async with KINDS["psycopg connection"](dsn, AUTOCOMMIT) as caller:
        async with caller.connection.transaction():
            added = await client.add_job("plain", connection=caller.connection)
            before = await ids(client)

        assert ([], [added.id]) == (before, await ids(client))

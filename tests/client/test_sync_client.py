"""`SyncClient`: its options, its own connections, and the values that it refuses as connections."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
import sqlalchemy.orm
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

from asyncq import (
    AccessDenied,
    Added,
    ConfigurationError,
    DuplicateJob,
    JobNotFound,
    JobSpec,
    StoreUnavailable,
    SyncAdd,
    SyncClient,
    UniquePolicy,
    UnknownTask,
    task,
)
from tests.support.codecs import Backwards, sealed
from tests.support.ids import written
from tests.support.roles import three_roles
from tests.support.sync_callers import engine_of, use_django

# No event loop runs during most of these tests; this lets them use the fixtures that need one.
pytestmark = pytest.mark.usefixtures("anyio_backend")

ASYNCHRONOUS = [
    asyncpg.Connection,
    psycopg.AsyncConnection,
    psycopg.AsyncCursor,
    sqlalchemy.ext.asyncio.AsyncConnection,
    AsyncSession,
    async_scoped_session,
]


@task(queue="mail")
def greet(name: str) -> None:
    """Has a payload and a default."""


@pytest.fixture
def jobs(dsn: str, schema: str) -> SyncClient:
    """A client with connections of its own."""
    return SyncClient(dsn, schema=schema, tasks=[greet])


def test_a_codec_encodes_payloads(dsn: str, schema: str, jobs: SyncClient) -> None:
    """As for a client with an event loop, whose codec may be the same object."""
    encoding = SyncClient(dsn, schema=schema, codec=Backwards("k1"))
    added = encoding.add_job(greet, "Ada")

    assert '{"name":"Ada"}' == encoding.get_job(added.id).payload
    assert f'"{sealed("k1", "greet", """{"name":"Ada"}""")}"' == jobs.get_job(added.id).payload


def test_without_a_connection_each_call_is_committed_when_it_returns(jobs: SyncClient) -> None:
    """The specs, the checks and the results are those of the asynchronous client."""
    one, two = jobs.add_job(greet, "Ada"), jobs.add_job("greet", {"name": "Bob"}, job_key="k")
    three, four = jobs.add_jobs([greet.job(name="Cid"), greet.job(name="Dan").with_options(unique=UniquePolicy())])
    with pytest.raises(DuplicateJob) as caught:
        jobs.add_job(greet.job(name="Dan"), unique=UniquePolicy())
    with pytest.raises(UnknownTask):
        jobs.add_job("gret", {})
    removed = jobs.remove_job("k")
    acts = [
        jobs.permanently_fail_jobs([one.id], "no"),
        jobs.retry_jobs([one.id]),
        jobs.reschedule_jobs([one.id], run_at=datetime(2040, 1, 1, tzinfo=UTC)),
        jobs.complete_jobs([three.id]),
        jobs.cancel_jobs([four.id]),
    ]

    assert [two.id, one.id, one.id, one.id, three.id, four.id] == [
        removed and removed.id,
        *(job.id for found in acts for job in found),
    ]
    assert four.id == caught.value.existing_id
    assert ("mail", '{"name":"Ada"}', 2040) == ((job := jobs.get_job(one.id)).queue, job.payload, job.run_at.year)
    with pytest.raises(JobNotFound):
        jobs.get_job(four.id)


def test_a_pool_of_the_caller_lends_the_connections(dsn: str, schema: str) -> None:
    """They are returned in no transaction, whatever the pool has set up."""
    with psycopg_pool.ConnectionPool(dsn, min_size=0, max_size=1, open=True) as pool:
        jobs = SyncClient(pool=pool, schema=schema)
        added = jobs.add_job(greet, "Ada")
        found = jobs.get_job(added.id)
        pool.timeout = 0.05  # only from here on: a busy machine takes longer to connect
        with pool.connection() as lent:
            state = lent.info.transaction_status
            with pytest.raises(StoreUnavailable, match="the servers of the pool cannot be reached") as caught:
                jobs.get_job(added.id)

    assert (added.id, psycopg.pq.TransactionStatus.IDLE, "not_sent") == (found.id, state, caught.value.outcome)


def test_its_own_transactions_have_asyncqs_settings(dsn: str, schema: str) -> None:
    """A database may have other defaults, which would make its statements slow or let them fail."""
    asked = ("transaction_isolation", "jit", "enable_seqscan")
    options = "-c default_transaction_isolation=serializable"
    jobs = SyncClient(f"{dsn}{'&' if '?' in dsn else '?'}options={options.replace(' ', '%20')}", schema=schema)
    with jobs._own().begun() as own:
        connection: Any = own._connection
        found = [connection.execute(f"show {name}").fetchone()[0] for name in asked]
        name = connection.info.parameter_status("application_name")

    assert (["read committed", "off", "off"], f"{schema} client") == (found, name)


def test_a_commit_without_an_answer_has_an_unknown_outcome(dsn: str, schema: str, jobs: SyncClient) -> None:
    """The server may have committed; here it ends while it does."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(f"""
            create function {schema}.end_it() returns trigger language plpgsql as
              $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
            create constraint trigger end_it after insert on {schema}._jobs deferrable initially deferred
              for each row execute function {schema}.end_it()""")
    with pytest.raises(StoreUnavailable) as caught:
        jobs.add_job(greet, "Ada")

    assert "unknown" == caught.value.outcome


def test_a_server_that_is_read_only_is_no_fault_of_the_caller(dsn: str, schema: str) -> None:
    """It may be a standby: another server works, or this one later."""
    options = "-c default_transaction_read_only=on".replace(" ", "%20")
    jobs = SyncClient(f"{dsn}{'&' if '?' in dsn else '?'}options={options}", schema=schema)
    with pytest.raises(StoreUnavailable, match="read only") as caught:
        jobs.add_job("t")
    with pytest.raises(JobNotFound):
        jobs.get_job(1)

    assert "not_sent" == caught.value.outcome


def test_a_server_that_cannot_be_reached_got_nothing(schema: str) -> None:
    """The error names the server, without the password."""
    unreachable = SyncClient("postgresql://app:pa%2Fss@127.0.0.1:1/app", schema=schema)
    with pytest.raises(StoreUnavailable, match=r"127.0.0.1:1, database 'app', as 'app' cannot be reached") as caught:
        unreachable.add_job("t")

    assert "not_sent" == caught.value.outcome
    assert "pa" not in str(caught.value).replace("app", "")


async def test_a_role_that_may_only_enqueue_adds(dsn: str) -> None:
    """Which function the role may call is read once for an engine, a connection, or the client's own DSN."""
    again = greet.job(name="Ada").with_options(unique=UniquePolicy())
    async with three_roles(dsn) as roles:
        mine = roles.dsn_of(roles.enqueuer)
        own = SyncClient(mine, schema=roles.schema)
        added = own.add_job(again)
        with engine_of(mine) as engine, engine.begin() as connection:
            rejected = SyncClient(schema=roles.schema).add_jobs([again], connection=connection)
        with pytest.raises(AccessDenied):
            own.get_job(added.id)
        with pytest.raises(AccessDenied):
            SyncClient(roles.dsn_of(roles.stranger), schema=roles.schema).add_job("t")

    assert [("rejected", added.id)] == [(each.outcome, each.existing_id) for each in rejected]


@pytest.mark.parametrize("kind", ASYNCHRONOUS, ids=written)
def test_an_asynchronous_connection_is_refused_with_the_right_call(kind: type[Any]) -> None:
    """Nothing here could await its methods."""
    with pytest.raises(
        TypeError, match=rf"is a .*{kind.__name__}, which is asynchronous: asyncq.Client .*await client"
    ):
        # Without its `__del__`, which expects an initialized object.
        SyncClient().add_job("t", connection=object.__new__(type(kind.__name__, (kind,), {"__del__": lambda _: None})))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sqlalchemy.Engine.__new__(sqlalchemy.Engine), "write `with engine.begin"),
        (sqlalchemy.orm.sessionmaker, "write `with sessions.begin"),
        (lambda: psycopg_pool.ConnectionPool.__new__(psycopg_pool.ConnectionPool), r"or `SyncClient\(pool=pool\)`"),
        (lambda: 5, "must be a Session, .* of SQLAlchemy; a Connection .* of psycopg; .*Django.*; got builtins.int"),
        (lambda: "postgresql://app@host/app", r"takes no DSN: write SyncClient\(dsn\)"),
    ],
)
def test_any_other_value_is_refused_with_advice(make: Any, said: str) -> None:
    """The message names all kinds, or the call that gets one."""
    with pytest.raises(TypeError, match=said):
        SyncClient().add_job("t", connection=make())


def test_an_alias_needs_django_and_has_to_be_one(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong one would otherwise fail inside of Django."""
    use_django(dsn)
    with pytest.raises(
        ConfigurationError, match="'replica' is no alias of a Django database; DATABASES has 'default', "
    ):
        SyncClient().add_job("t", connection="replica")
    monkeypatch.delitem(sys.modules, "django.db")
    with pytest.raises(TypeError, match="would be the alias of a Django database, but Django is not loaded"):
        SyncClient().add_job("t", connection="default")


def test_a_database_of_another_kind_is_refused() -> None:
    """A program may have several engines."""
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(TypeError, match="where the jobs are, got one to sqlite"):
        SyncClient().add_job("t", connection=connection)
    engine.dispose()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: SyncClient().add_job("t"),
            r"without a DSN or a pool: give the call a connection, or .*SyncClient\(dsn\)",
        ),
        (lambda: SyncClient().add_job("t", autocommit=True), "autocommit=True needs connection="),
        (lambda: SyncClient("postgresql://h", pool=psycopg_pool), "a DSN or a pool, not both"),
        (lambda: SyncClient(pool="postgresql://h"), "must be a ConnectionPool of psycopg_pool, got 'postgresql"),
        (lambda: SyncClient(""), "a DSN is needed"),
        (lambda: SyncClient("postgresql://u:se/cret@h:1/d"), "cannot be read by libpq"),
        (lambda: SyncClient("postgresql://h?nonsense=1"), "cannot be read by libpq"),
        (lambda: SyncClient(max_payload=1.5), "max_payload must be a whole number"),
        (lambda: SyncClient(idempotency_window=timedelta(0)), "idempotency_window is a timedelta above 0"),
        (lambda: SyncClient(middleware=[print_and_wait]), "print_and_wait is a coroutine function.*no event loop"),
        (lambda: SyncClient(middleware=[lambda: None]), "called with two arguments"),
        (lambda: SyncClient(middleware=5), "must be a list of functions, got 5"),
        (lambda: SyncClient(middleware=[5]), "a middleware is a function of two arguments, got 5"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(make: Any, said: str) -> None:
    """Where they are given, and without the password."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        make()

    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg://{rest}",
        "postgres://{rest}&statement_cache_size=0&ssl=disable",
    ],
)
def test_a_dsn_is_read_in_the_forms_of_the_client(dsn: str, schema: str, address: str) -> None:
    """One variable of the environment serves workers and scripts."""
    rest = dsn.partition("://")[2]
    written_so = address.format(rest=rest if "?" in rest else f"{rest}?connect_timeout=5")

    assert SyncClient(written_so, schema=schema).add_job("t").outcome == "added"
    assert SyncClient(f"{keywords(dsn)} statement_cache_size=0", schema=schema).add_job("t").outcome == "added"


def keywords(dsn: str) -> str:
    """A DSN in the form of libpq."""
    return make_conninfo(**conninfo_to_dict(dsn))


def test_without_psycopg_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'asyncq\[psycopg\]'"):
        SyncClient("postgresql://h")


def test_no_library_is_imported_by_a_client_without_a_dsn() -> None:
    """A service without them starts as fast as before."""
    program = (
        "import asyncq, sys; asyncq.SyncClient()\n"
        "print({'sqlalchemy', 'psycopg', 'psycopg_pool', 'django'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ("set()\n", "") == (done.stdout, done.stderr)


async def print_and_wait(specs: Sequence[JobSpec], add: SyncAdd) -> None:
    """Middleware for a `Client`."""


def marking(specs: Sequence[JobSpec], add: SyncAdd) -> list[Added]:
    """Marks the jobs."""
    return add([spec.with_options(meta={"mark": len(specs)}) for spec in specs])


def priorities(specs: Sequence[JobSpec], add: SyncAdd) -> list[Added]:
    """Changes another option."""
    return add([spec.with_options(priority=3) for spec in specs])


def test_middleware_may_replace_the_jobs_of_each_add(dsn: str, schema: str) -> None:
    """On every connection."""
    jobs = SyncClient(dsn, schema=schema, middleware=[marking, priorities])
    with engine_of(dsn) as engine, engine.begin() as connection:
        inside = jobs.add_jobs([greet.job(name="Ada"), greet.job(name="Bob")], connection=connection)
    found = [jobs.get_job(each.id) for each in [jobs.add_job(greet, "Cid"), *inside]]

    assert [({"mark": 1}, 3), ({"mark": 2}, 3), ({"mark": 2}, 3)] == [(job.meta, job.priority) for job in found]


@pytest.mark.parametrize(
    ("middleware", "said"),
    [
        (lambda specs, add: add(specs[1:]), "passed on 0 jobs of 1: it may replace jobs"),
        (lambda specs, add: None, r"did not add its jobs: it has to call add\(specs\)"),
        (lambda specs, add: [add(specs), add(specs)], "added its jobs a second time"),
    ],
)
def test_middleware_that_leaves_jobs_out_is_an_error(dsn: str, schema: str, middleware: Any, said: str) -> None:
    """A caller gets a result for each job."""
    with pytest.raises(ConfigurationError, match=said):
        SyncClient(dsn, schema=schema, middleware=[middleware]).add_job("t")


def test_jobs_may_be_due_by_the_clock_of_the_process(dsn: str, schema: str) -> None:
    """A simulation moves it; the clock of the server says something else."""
    jobs = SyncClient(dsn, schema=schema, use_local_time=True)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(f"""
            create or replace function {schema}.now() returns timestamptz
            language sql stable as $$ select '2000-01-01'::timestamptz $$""")
    before = datetime.now(UTC)
    added = jobs.add_job("t")

    assert before <= jobs.get_job(added.id).run_at <= datetime.now(UTC)


def test_an_idempotency_key_holds_for_the_window_of_the_client(dsn: str, schema: str) -> None:
    """Within it the same request returns the same job."""
    jobs = SyncClient(dsn, schema=schema, idempotency_window=timedelta(hours=1))
    added = jobs.add_job("t", idempotency_key="once")
    again = jobs.add_job("t", idempotency_key="once")
    with psycopg.connect(dsn) as db:
        (left,) = db.execute(f"select keep_until - now() from {schema}._requests").fetchone() or ()

    assert (added.id, "deduplicated") == (again.id, again.outcome)
    assert timedelta(minutes=50) < left < timedelta(minutes=61)


def test_a_unique_policy_decides_over_any_connection(dsn: str, schema: str) -> None:
    """The key is computed by the client."""
    jobs = SyncClient(dsn, schema=schema)
    policy = UniquePolicy(keys=["args"])
    added = jobs.add_job("t", {"a": 1, "b": 2}, unique=policy)
    with psycopg.connect(dsn) as connection, pytest.raises(DuplicateJob) as caught:
        jobs.add_job("t", {"b": 2, "a": 1}, unique=policy, connection=connection)

    assert added.id == caught.value.existing_id

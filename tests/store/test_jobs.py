"""Jobs in the store: sent and returned values, on our connections and on callers' ones."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import pytest

from asyncq.domain.errors import InvalidJob, StoreError, StoreUnavailable, TransactionUnusable
from asyncq.domain.job import Added, JobKeyMode, JobSpec
from asyncq.domain.states import JobState
from asyncq.store.add import add_jobs
from asyncq.store.admin import get_job
from asyncq.store.claim import START, Place, fetch_jobs, next_due_s
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.settle import return_lost
from asyncq.testing import MovableClock
from tests.support.jobs import add, add_many
from tests.support.session import Session

FULL = JobSpec(
    task="t",
    payload='{"n": 1.0}',
    queue="q",
    run_at=datetime(2040, 1, 2, 3, 4, 5, 678901, timezone(timedelta(hours=5, minutes=30))),
    max_attempts=7,
    priority=-3,
    flags=("b", "a"),
    meta='{"m": [1, null]}',
)


@pytest.fixture
async def strange(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A caller's connection, which has codecs of its own for everything that one could have codecs for."""
    connection = await asyncpg.connect(dsn)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    for name in ("timestamptz", "text", "int8", "int4", "int2"):
        await connection.set_type_codec(
            name, encoder=lambda value: f"{value}", decoder=str if name.startswith("t") else int, schema="pg_catalog"
        )
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize("names", [[], ["t"]], ids=["new", "known"])
async def test_a_job_is_added_and_read_as_it_was_given(database: Database, sql: Session, names: list[str]) -> None:
    """Every field is stored and read."""
    await sql.rows("select asyncq._store_tasks($1::text[])", names)
    (added,) = await add_jobs(database, sql.connection, [FULL])
    job = await get_job(database, sql.connection, added.id)

    assert Added(added.id, "added", None, None) == added
    assert ("t", "q", '{"n": 1.0}', -3, FULL.run_at, 7) == (
        *(job.task, job.queue, job.payload, job.priority),
        *(job.run_at, job.max_attempts),
    )
    assert (("a", "b"), {"m": [1, None]}, JobState.SCHEDULED) == (job.flags, job.meta, job.state)
    assert (0, None, None, None, None, 0, 0) == (
        *(job.attempts, job.last_error, job.key, job.locked_at, job.locked_by),
        *(job.revision, job.interruptions),
    )


@pytest.mark.parametrize("names", [[], ["t"]], ids=["new", "known"])
async def test_a_job_of_defaults_is_added(database: Database, sql: Session, names: list[str]) -> None:
    """None means the server's default."""
    await sql.rows("select asyncq._store_tasks($1::text[])", names)
    (added,) = await add_jobs(database, sql.connection, [JobSpec(task="t")])
    job = await get_job(database, sql.connection, added.id)

    assert ("{}", None, 25, 0, (), None) == (
        *(job.payload, job.queue, job.max_attempts),
        *(job.priority, job.flags, job.meta),
    )
    assert (JobState.AVAILABLE, job.created_at) == (job.state, job.run_at)


async def test_many_jobs_are_answered_in_the_order_of_their_specs(database: Database, sql: Session) -> None:
    """Their ids have that order, too."""
    specs = [JobSpec(task=f"t{number % 5}", queue=f"q{number % 3}") for number in range(20)]
    ids = [added.id for added in await add_jobs(database, sql.connection, specs)]
    names = await sql.values("select task_identifier from asyncq.jobs order by id")

    assert sorted(ids) == ids
    assert [spec.task for spec in specs] == names


SOON = datetime(2040, 1, 2, tzinfo=UTC)
SOME: dict[str, Any] = {
    "queue": "a\x1eb",
    "run_at": SOON,
    "max_attempts": 3,
    "job_key": "\x1e",
    "priority": -3,
    "flags": ("a\x1e", "b"),
    "meta": '{"m": "\\u001e"}',
    "idempotency_key": "\x1e",
}
FIELDS = """
select queue, nullif(run_at, now()) as run_at, max_attempts, job.key, priority, flags::text, meta::text,
  request.key as request
from asyncq._jobs as job left join asyncq._requests as request on request.job_id = job.id order by job.id
"""


@pytest.mark.parametrize("field", SOME)
async def test_options_that_only_some_jobs_of_a_call_have_apply_to_those_alone(
    database: Database, sql: Session, field: str
) -> None:
    """Its characters and its place among the jobs do not matter."""
    specs = [JobSpec(task="t", **options) for options in ({}, {field: SOME[field]}, {})]
    stored = []
    for groups in ([specs], [[spec] for spec in specs]):
        transaction = sql.connection.transaction()
        await transaction.start()
        added = [one for group in groups for one in await add_jobs(database, sql.connection, group)]
        stored.append(await sql.rows(FIELDS))
        await transaction.rollback()

        assert ["added"] * 3 == [one.outcome for one in added]
    assert stored[0] == stored[1]
    assert stored[0][0] == stored[0][2] != stored[0][1]


async def test_the_answers_that_say_more_belong_to_their_jobs(database: Database, sql: Session) -> None:
    """Between those that were only added."""
    (held,) = await add_jobs(database, sql.connection, [JobSpec(task="t", job_key="k", run_at=SOON)])
    mode = JobKeyMode.UNSAFE_DEDUPE
    specs = [JobSpec(task="t", job_key=key, job_key_mode=mode) for key in ("a", "k", None, "a", "b")]
    added = await add_jobs(database, sql.connection, specs)

    assert Added(held.id, "deduplicated", held.id, JobState.SCHEDULED) == added[1]
    assert Added(added[0].id, "deduplicated", added[0].id, JobState.AVAILABLE) == added[3]
    assert [Added(one.id) for one in (added[0], added[2], added[4])] == [added[0], added[2], added[4]]


async def test_adding_nothing_sends_nothing(database: Database) -> None:
    """No connection is opened."""
    nobody: Any = None

    assert [] == await add_jobs(database, nobody, [])


async def test_a_missing_job_is_none(database: Database, sql: Session) -> None:
    """It ended well, or never existed."""
    assert await get_job(database, sql.connection, 1) is None


async def test_a_running_job_shows_its_worker_and_its_failed_attempts(
    database: Database, sql: Session, line: ReconnectingConnection
) -> None:
    """The view counts the attempt that runs; `Job.attempts` does not."""
    job_id = await add(sql)
    await sql.execute("update asyncq._jobs set attempts = 2")
    await fetch_jobs(line, 7, 1, 1, [1], None, START)
    job = await get_job(database, sql.connection, job_id)

    assert (2, "7", JobState.ACTIVE, False) == (job.attempts, job.locked_by, job.state, job.locked_at is None)


@pytest.mark.parametrize(("hours", "found"), [(1, [True, True]), (-1, [False, False])])
async def test_jobs_are_due_by_the_clock_of_the_schema_not_by_that_of_this_process(
    dsn: str, sql: Session, line: ReconnectingConnection, hours: int, found: list[bool]
) -> None:
    """A worker's own clock may be wrong by hours: nothing may start early or late for that."""
    for queue in (None, "q"):
        await add(sql, queue=queue, run_at=f"now() + make_interval(mins => 30 * sign({hours})::int)")
    async with MovableClock(dsn, sql.schema) as clock:
        await clock.move(timedelta(hours=hours))
        claims = [
            (await fetch_jobs(line, 7, token, 1, [1], None, START, of_partitions=token == 2)).claims for token in (1, 2)
        ]

    assert found == [bool(each) for each in claims]


async def test_adds_work_on_a_connection_with_codecs_of_its_own(
    database: Database, strange: asyncpg.Connection
) -> None:
    """The caller's connection keeps its ways: only text and integers cross."""
    (added,) = await add_jobs(database, strange, [FULL])

    assert "added" == added.outcome


async def test_adds_work_on_a_proxy_of_a_pool(dsn: str, database: Database) -> None:
    """`pool.acquire()` returns such a proxy."""
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool, pool.acquire() as connection:
        (added,) = await add_jobs(database, connection, [FULL])

    assert "added" == added.outcome


async def test_an_add_is_part_of_the_callers_transaction(database: Database, sql: Session) -> None:
    """It is there when the transaction commits, and only then."""
    transaction = sql.connection.transaction()
    await transaction.start()
    (added,) = await add_jobs(database, sql.connection, [FULL])
    await transaction.rollback()

    assert await get_job(database, sql.connection, added.id) is None


async def test_an_add_in_an_aborted_transaction_raises_a_clear_error(database: Database, sql: Session) -> None:
    """The caller ignored the error of an earlier statement. The server's own message does not help."""
    transaction = sql.connection.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.PostgresError):
        await sql.rows("select 1 / 0")
    with pytest.raises(TransactionUnusable, match="aborted: an earlier statement in it failed") as error:
        await add_jobs(database, sql.connection, [FULL])
    await transaction.rollback()

    assert "25P02" == error.value.sqlstate


async def test_an_add_in_a_read_only_transaction_raises_a_clear_error(database: Database, sql: Session) -> None:
    """A replica behaves the same."""
    async with sql.connection.transaction(readonly=True):
        with pytest.raises(TransactionUnusable, match="read only") as error:
            await add_jobs(database, sql.connection, [FULL])

    assert "25006" == error.value.sqlstate


async def test_a_job_that_the_server_refuses_names_the_field_and_the_code(database: Database, sql: Session) -> None:
    """The store may get a spec that was not checked, so the server checks again."""
    with pytest.raises(InvalidJob, match="at least 1 is needed") as error:
        await add_jobs(database, sql.connection, [JobSpec(task="t"), JobSpec(task="t", max_attempts=0)])

    assert ("GWBMA", "max_attempts") == (error.value.code, error.value.field)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_number_that_does_not_fit_is_no_lost_connection(database: Database, sql: Session) -> None:
    """The driver refuses it; trying again will not help."""
    with pytest.raises(StoreError, match="value out of int64 range") as error:
        await get_job(database, sql.connection, 2**70)

    assert not isinstance(error.value, StoreUnavailable)


async def test_a_connection_that_is_in_use_is_no_lost_connection(database: Database, sql: Session) -> None:
    """The caller shares it between two tasks: a defect of the program, which no retry mends."""
    await sql.execute("begin; declare held cursor for select 1")
    with (
        sql.connection._stmt_exclusive_section,
        pytest.raises(StoreError, match="another task uses") as error,
    ):
        await add_jobs(database, sql.connection, [FULL])

    assert not isinstance(error.value, StoreUnavailable)


async def test_a_connection_that_was_closed_before_has_sent_nothing(dsn: str, database: Database) -> None:
    """The call may therefore be repeated safely."""
    connection = await asyncpg.connect(dsn)
    await connection.close(timeout=5)
    with pytest.raises(StoreUnavailable, match="is closed") as error:
        await add_jobs(database, connection, [FULL])

    assert "not_sent" == error.value.outcome


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-9, minutes=-30)), timezone(timedelta(seconds=53))])
async def test_times_with_any_offset_arrive(database: Database, sql: Session, zone: timezone) -> None:
    """Offsets with seconds are no syntax of PostgreSQL."""
    run_at = datetime(2040, 1, 1, tzinfo=zone)
    await add_jobs(database, sql.connection, [JobSpec(task="t", run_at=run_at)])

    assert run_at == await sql.value("select run_at from asyncq._jobs")


@pytest.mark.parametrize("of_partitions", [False, True])
async def test_claims_are_returned_in_the_order_of_their_runs(
    line: ReconnectingConnection, sql: Session, *, of_partitions: bool
) -> None:
    """The statement returns them in any order."""
    await add_many(sql, 30, priority="-(i % 3)", queue="'q' || i" if of_partitions else "null")
    claims = (await fetch_jobs(line, 1, 1, 100, [1], None, START, of_partitions=of_partitions)).claims

    assert 30 == len(claims)
    assert sorted(claim.place for claim in claims) == [claim.place for claim in claims]


async def test_a_claim_has_all_fields_of_its_job(line: ReconnectingConnection, sql: Session) -> None:
    """Fields are compared by name, since two exchanged numbers are easily overlooked."""
    await sql.execute("""
        select asyncq.add_job('t', '{"a": 1}', 'q', flags := '{f}', max_attempts := 9, priority := 3,
          options := '{"meta": {"m": 1}, "timeout_s": 5}');
        update asyncq._jobs set attempts = 2, interruptions = 1, revision = 4, last_error = 'e', key = 'k'""")
    (claim,) = (await fetch_jobs(line, 7, 42, 1, [1], None, START, of_partitions=True)).claims
    row = await sql.row("""
        select id, task_id, queue, lock_token as token, attempts, max_attempts, interruptions, priority, revision,
          run_at, created_at, updated_at, key, flags, payload, meta, last_error, extras, expires_at, deadline_at,
          partition, false as is_packed, null as start_by
        from asyncq._jobs""")

    assert row["extras"] is not None
    assert len(row) == len(claim.__struct_fields__)
    assert dict(row) == {name: getattr(claim, name) for name in row.keys()}  # noqa: SIM118 - a record has values


async def test_a_fetch_continues_at_a_place(line: ReconnectingConnection, sql: Session) -> None:
    """The place of a fetch's last claim is the start of the next one."""
    await add_many(sql, 4)
    first = (await fetch_jobs(line, 1, 1, 2, [1], None, START)).claims
    await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    second = (await fetch_jobs(line, 1, 2, 10, [1], None, Place(*first[-1].place))).claims

    assert ([1, 2], [3, 4]) == ([claim.id for claim in first], [claim.id for claim in second])


async def test_a_job_at_either_end_of_the_calendar_is_fetched_like_any_other(
    line: ReconnectingConnection, sql: Session
) -> None:
    """A time that the driver cannot decode would fail each fetch of the whole batch."""
    await add(sql, run_at="'0001-01-01 00:00:00+00'")
    await add(sql)
    claims = (await fetch_jobs(line, 1, 1, 10, [1], None, START)).claims
    again = (await fetch_jobs(line, 1, 2, 10, [1], None, Place(*claims[0].place))).claims

    assert [datetime(1, 1, 1, tzinfo=UTC)] == [claim.run_at for claim in claims[:1]]
    assert (2, 0) == (len(claims), len(again))


async def test_the_next_due_time_is_in_seconds(line: ReconnectingConnection, sql: Session) -> None:
    """It is None if no job waits."""
    since = asyncio.get_running_loop().time()
    nothing = await next_due_s(line, since)
    await add(sql, run_at="now() + interval '60 s'")

    assert nothing is None
    assert await next_due_s(line, since) == pytest.approx(60, abs=1)


async def test_lost_claims_are_returned(line: ReconnectingConnection, sql: Session) -> None:
    """They are found by the numbers of the fetches without an answer."""
    await add_many(sql, 3)
    await fetch_jobs(line, 1, 5, 2, [1], None, START)
    await fetch_jobs(line, 1, 6, 1, [1], None, START)

    assert {1, 2} == await return_lost(line, 1, [5])
    assert [3] == await sql.values("select id from asyncq._jobs where locked_by is not null")

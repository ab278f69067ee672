"""`client.admin`: each call on the client's pool and on the caller's connection, with any codecs."""

import json
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from asyncq import Client, Counts, InvalidJob, Job, JobFilter, JobNotFound, StoreError, TransactionUnusable
from tests.support.jobs import add, fetch
from tests.support.keyed import KEY, hold
from tests.support.session import Session

HELD = "select count(*) from pg_stat_activity where application_name = $1 and backend_xmin is not null"
RUN_AT = datetime(2030, 1, 31, 4, tzinfo=UTC)


@pytest.fixture
async def client(dsn: str, schema: str) -> AsyncIterator[Client]:
    """An open client."""
    async with Client(dsn, schema=schema) as opened:
        yield opened


@pytest.fixture
async def odd(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A caller's connection with codecs of its own, in another zone."""
    connection = await asyncpg.connect(dsn)
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await connection.set_type_codec("timestamptz", encoder=str, decoder=str, schema="pg_catalog")
    await connection.execute("set timezone = 'America/St_Johns'; set datestyle = 'German'")
    yield connection
    await connection.close(timeout=5)


async def act(client: Client, name: str, ids: list[int], **options: Any) -> list[Job]:
    """Call one of the four acts, the reschedule with a time."""
    more = {"run_at": RUN_AT} if name == "reschedule_jobs" else {}
    return await getattr(client.admin, name)(ids, **more, **options)


ACTS = ("complete_jobs", "discard_jobs", "reschedule_jobs", "retry_jobs")


@pytest.mark.parametrize("name", ACTS)
async def test_an_act_returns_the_jobs_that_it_changed(client: Client, sql: Session, name: str) -> None:
    """The jobs are those of `get_job`, with payload and meta, ordered by id."""
    ids = [(await hold(sql, "retryable", key=key))["id"] for key in "ab"]
    before = [await client.get_job(job) for job in ids]
    jobs = await act(client, name, [ids[1], 0, ids[0]])

    assert [(job.id, job.payload, job.meta, job.flags) for job in before] == [
        (job.id, job.payload, job.meta, job.flags) for job in jobs
    ]
    if name == "complete_jobs":
        assert before == jobs
        with pytest.raises(JobNotFound):
            await client.get_job(ids[0])
    else:
        assert jobs == [await client.get_job(job) for job in ids]


UNREADABLE = {
    "number": '{"n": 1e5000, "state": "x, \\"state\\" : "}',
    "depth": '{"a": ' + "[" * 3000 + "]" * 3000 + "}",
}


@pytest.mark.parametrize("meta", UNREADABLE)
async def test_one_meta_that_cannot_be_read_hides_no_job(client: Client, sql: Session, meta: str) -> None:
    """An earlier release stored it. Acts would fail after they were committed."""
    payload = '{"a": ", \\"meta\\" : 1"}'
    add_keyed = "select id from asyncq.add_job('t', $1::text::json, job_key := $2)"
    ids = [await sql.value(add_keyed, payload, key) for key in "ab"]
    await sql.rows("update asyncq._jobs set meta = $1::text::jsonb where id = $2", UNREADABLE[meta], ids[0])
    one = await client.get_job(ids[0])
    rest = [job.meta for job in (await client.admin.find_jobs(newest=False)).jobs]
    found = [await client.admin.get_job_by_key("a"), *await client.admin.reschedule_jobs([ids[0]], run_at=RUN_AT)]
    found += await client.admin.cancel_jobs([ids[0]])

    assert ["unreadable"] == list(one.meta or {})
    assert [one.meta, None] == rest
    assert [(payload, one.meta)] * 3 == [(job and job.payload, job and job.meta) for job in found]


@pytest.mark.parametrize("name", ACTS)
async def test_an_act_is_part_of_the_callers_transaction(
    client: Client, sql: Session, odd: asyncpg.Connection, name: str
) -> None:
    """Rolled back with it, and invisible to others until it commits."""
    job = (await hold(sql, "retryable"))["id"]
    before = await client.get_job(job)
    transaction = odd.transaction()
    await transaction.start()
    (changed,) = await act(client, name, [job], connection=odd)
    during = await client.get_job(job)
    await transaction.rollback()

    assert (before, before) == (during, await client.get_job(job))
    assert (job, before.payload, before.created_at) == (changed.id, changed.payload, changed.created_at)


async def test_none_and_zero_are_different_things(client: Client, sql: Session) -> None:
    """graphile-worker's client cannot set attempts or priority to 0."""
    job = (await hold(sql, "retryable"))["id"]
    (same,) = await client.admin.reschedule_jobs([job])
    (zero,) = await client.admin.reschedule_jobs([job], priority=0, attempts=0)

    assert ((3, 2), (0, 0)) == ((same.priority, same.attempts), (zero.priority, zero.attempts))


async def test_a_time_is_kept_to_the_microsecond(client: Client, sql: Session, odd: asyncpg.Connection) -> None:
    """A connection with another zone and its own codecs keeps it too."""
    job = (await hold(sql, "scheduled"))["id"]
    run_at = RUN_AT.replace(microsecond=1)
    (changed,) = await client.admin.reschedule_jobs([job], run_at=run_at, connection=odd, autocommit=True)

    assert (run_at, run_at) == (changed.run_at, (await client.get_job(job)).run_at)


async def test_a_value_out_of_range_is_refused_before_any_round_trip() -> None:
    """It has the code of the SQL function. The client need not be open."""
    client = Client("postgresql://nowhere.invalid/")
    with pytest.raises(InvalidJob) as caught:
        await client.admin.reschedule_jobs([1], max_attempts=0)

    assert ("GWBMA", "max_attempts") == (caught.value.code, caught.value.field)


@pytest.mark.parametrize(
    ("given", "expected"), [((), "Manually marked as failed"), ((None,), "Manually marked as failed"), (("",), "")]
)
async def test_the_error_of_a_failed_job_is_given(client: Client, sql: Session, given: Any, expected: str) -> None:
    """None means the default; an empty text is a text."""
    job = await add(sql)
    (failed,) = await client.admin.discard_jobs([job], *given)

    assert (expected, "discarded") == (failed.last_error, failed.state)


async def test_jobs_are_cancelled_in_the_callers_transaction(
    client: Client, sql: Session, odd: asyncpg.Connection
) -> None:
    """They are returned as they were before."""
    job = (await hold(sql, "retryable"))["id"]
    before = await client.get_job(job)
    transaction = odd.transaction()
    await transaction.start()
    during = await client.admin.cancel_jobs([job, 0], connection=odd)
    await transaction.rollback()

    assert ([before], before) == (during, await client.get_job(job))
    assert [before] == await client.admin.cancel_jobs([job])
    assert [] == await client.admin.cancel_jobs([job])


async def test_a_job_is_found_and_removed_by_its_key(client: Client, sql: Session, odd: asyncpg.Connection) -> None:
    """The second call finds no job with the key."""
    job = (await hold(sql, "retryable"))["id"]
    found = await client.admin.get_job_by_key(KEY)
    removed = await client.admin.remove_job(KEY, connection=odd, autocommit=True)

    assert (job, found) == (found and found.id, removed)
    assert (None, None) == (await client.admin.remove_job(KEY), await client.admin.get_job_by_key(KEY))


async def test_a_running_job_whose_key_is_removed_is_returned_as_locked(client: Client, sql: Session) -> None:
    """The caller then knows that it continues."""
    await hold(sql, "active")
    removed = await client.admin.remove_job(KEY)

    assert removed is not None
    assert (None, "9", "active") == (removed.key, removed.locked_by, removed.state)


async def test_workers_are_named_by_numbers_or_texts(client: Client, sql: Session, odd: asyncpg.Connection) -> None:
    """`locked_by` is a text, the events say numbers."""
    ids = [await add(sql) for _ in range(2)]
    for worker in (7, 8):
        await fetch(sql, 1, worker=worker)
    freed = [
        *await client.admin.force_unlock_workers([7]),
        *await client.admin.force_unlock_workers(["8", "x"], connection=odd, autocommit=True),
    ]

    assert [(job, None, 1) for job in ids] == [(job.id, job.locked_by, job.attempts) for job in freed]


async def test_a_list_is_read_page_by_page(client: Client, sql: Session) -> None:
    """It may have any filter."""
    ids = [await add(sql, "a" if number % 2 else "b", queue="q", flags=["f"]) for number in range(6)]
    first = (
        await client.admin.find_jobs(JobFilter(task="a", queue="q", flag="f", state="available"), newest=False, limit=2)
    ).jobs
    second = (await client.admin.find_jobs(JobFilter(task="a"), newest=False, limit=2, start=first[-1].id)).jobs

    assert (ids[1::2][:2], ids[1::2][2:]) == ([job.id for job in first], [job.id for job in second])
    assert ids == [job.id for job in (await client.admin.find_jobs(newest=False)).jobs]
    assert [] == (await client.admin.find_jobs(JobFilter(state="discarded"), newest=False)).jobs


async def test_all_jobs_are_iterated_page_by_page(client: Client, sql: Session) -> None:
    """Each job is returned once, even if the last page is full. Jobs that are added meanwhile are included."""
    ids = [await add(sql, "a" if number % 2 else "b") for number in range(6)]
    found: list[int] = []
    async for job in client.admin.iter_jobs(page=2):
        found.append(job.id)
        if len(found) == 2:
            await sql.rows("delete from asyncq._jobs where id = $1", ids[3])
            ids.append(await add(sql, "b"))

    assert [*ids[:3], *ids[4:]] == found
    assert [ids[5]] == [job.id async for job in client.admin.iter_jobs(JobFilter(task="a"), page=1, start=ids[1])]


async def test_a_page_that_is_too_large_is_refused_by_its_name(client: Client) -> None:
    """Nobody needs that many at once."""
    with pytest.raises(InvalidJob, match="limit is 5000, expected 1 to 1000"):
        _ = [job async for job in client.admin.iter_jobs(page=5000)]


async def test_the_clock_is_the_servers(client: Client, sql: Session) -> None:
    """It is in UTC, like all returned times."""
    before = await sql.value("select clock_timestamp()")
    now = await client.admin.now()

    assert (UTC, True) == (now.tzinfo, before <= now <= await sql.value("select clock_timestamp()"))


async def test_going_through_many_jobs_holds_a_page_of_them_and_no_connection(client: Client, sql: Session) -> None:
    """An export of millions must not need their memory, nor keep vacuum from its work."""
    payload = json.dumps("x" * 20_000)
    await sql.rows("select asyncq.add_job('t', $1::text::json) from generate_series(1, 400)", payload)
    tracemalloc.start()
    try:
        held = [await sql.value(HELD, f"{sql.schema} client") async for _ in client.admin.iter_jobs(page=10)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [0] * 400 == held
    assert most < 100 * len(payload)


@pytest.mark.parametrize(
    ("which", "given"),
    [
        (JobFilter(state="failed"), {}),
        (JobFilter(state="completed"), {}),
        (JobFilter(due_before=datetime(2030, 1, 1)), {}),  # noqa: DTZ001
        (JobFilter(has=1j), {}),
        (JobFilter(), {"limit": 0}),
        (JobFilter(), {"look": 0}),
        (JobFilter(), {"start": 2**63}),
    ],
    ids=str,
)
async def test_an_invalid_page_is_refused(client: Client, which: JobFilter, given: dict[str, Any]) -> None:
    """A misspelt state must not look like an empty list."""
    with pytest.raises(InvalidJob):
        await client.admin.find_jobs(which, **given)


async def test_jobs_are_counted_by_their_states(client: Client, sql: Session) -> None:
    """A small table is counted exactly."""
    for key, state in enumerate(["scheduled", "active", "discarded", "discarded"]):
        await hold(sql, state, key=str(key))

    assert Counts(scheduled=1, active=1, discarded=2) == await client.admin.counts()
    assert Counts(scheduled=1, active=1, discarded=2) == await client.admin.counts(exact=True)


async def test_an_explanation_tells_whether_the_job_is_runnable(client: Client, sql: Session) -> None:
    """The reasons are included."""
    job = await add(sql)
    before = await client.admin.explain(job)
    await sql.run("register_worker", 30.0, 1, 1, "h", ["t"], 0, None, [])
    after = await client.admin.explain(job)

    assert (job, False, ["no_worker"]) == (before.job_id, before.runnable, [one.reason for one in before.reasons])
    assert (True, ["ready"]) == (after.runnable, [one.reason for one in after.reasons])
    with pytest.raises(JobNotFound):
        await client.admin.explain(job + 1)


async def test_one_cleanup_removes_an_unused_name(client: Client, sql: Session) -> None:
    """The client calls it twice, and commits the marks of the first call before the second."""
    await sql.execute("select asyncq._task_ids('{a,b}')")
    removed = 0
    for _ in range(20):
        # Somebody else on the server may hold an old snapshot for a moment.
        removed += (await client.admin.cleanup(task_identifiers_to_keep=["b"]))["GC_TASK_IDENTIFIERS"]
        if removed:
            break

    assert (1, ["b"]) == (removed, await sql.values("select identifier from asyncq._tasks"))


async def test_a_cleanup_reports_its_results(client: Client, sql: Session, odd: asyncpg.Connection) -> None:
    """The default removes only unused names."""
    await hold(sql, "discarded")

    assert {"GC_JOB_QUEUES": 0, "GC_TASK_IDENTIFIERS": 0} == await client.admin.cleanup()
    assert {"DELETE_PERMAFAILED_JOBS": 1} == await client.admin.cleanup(
        "DELETE_PERMAFAILED_JOBS", connection=odd, autocommit=True
    )
    with pytest.raises(InvalidJob):
        await client.admin.cleanup("GC_QUEUES")


async def test_an_old_snapshot_is_refused_with_a_code(client: Client, sql: Session, odd: asyncpg.Connection) -> None:
    """The caller has to repeat the transaction."""
    job = await add(sql)
    transaction = odd.transaction(isolation="repeatable_read")
    await transaction.start()
    await odd.fetch("select 1")
    await client.admin.reschedule_jobs([job], priority=1)
    with pytest.raises(StoreError) as caught:
        await client.admin.complete_jobs([job], connection=odd)
    await transaction.rollback()

    assert "40001" == caught.value.sqlstate


async def test_a_transaction_that_takes_no_writes_is_named(
    client: Client, sql: Session, db: asyncpg.Connection
) -> None:
    """Adds raise the same error."""
    job = await add(sql)
    with pytest.raises(TransactionUnusable):
        async with db.transaction(readonly=True):
            await client.admin.retry_jobs([job], connection=db)


async def test_an_object_that_is_no_connection_is_refused(client: Client) -> None:
    """A pool, for example, would fail later with an obscure error."""
    with pytest.raises(TypeError, match="connection must be an asyncpg connection"):
        await client.admin.retry_jobs([1], connection="postgresql://")  # type: ignore[arg-type]

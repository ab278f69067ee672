"""The kit for tests: a schema for each test, running due jobs, checking added jobs, moving the clock."""

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, TypedDict
from unittest import mock
from uuid import UUID

import anyio
import asyncpg
import msgspec
import pytest

from asyncq import (
    Client,
    ConfigurationError,
    Discard,
    JobCompleted,
    JobContext,
    Rate,
    RetryAfter,
    SchemaMissing,
    Snooze,
    StoreError,
    Worker,
    WorkerStarted,
    WorkerStopping,
    resource,
    task,
    use,
)
from asyncq.store.migrate import migrate_on
from asyncq.testing import MovableClock, assert_added, assert_not_added, make_worker, run_due, temporary_schema
from asyncq.testing.added import _declared
from tests.support.ids import written
from tests.support.seen import Seen

HOUR = timedelta(hours=1)
SOON = timedelta(seconds=5)


class Email(msgspec.Struct):
    to: str
    subject: str = "hi"


class Address(TypedDict):
    city: str


class Color(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int = 0


class Like(NamedTuple):
    name: str


class Nothing(msgspec.Struct):
    """A payload without a field."""


class Attributed:
    """A class like those of attrs, as far as the kit reads them."""

    __attrs_attrs__ = (Like("size"),)
    size = 3


@task(queue="mail", max_attempts=5)
async def send_email(email: Email) -> None:
    """Send an email."""


@task
async def greet(ctx: JobContext | None, email: Email) -> None:
    """A handler that its own tests call without a context."""


@task
async def rollup(ctx: JobContext, day: str, dry_run: bool = False) -> None:
    """Add up a day."""


@task
async def visit(address: Address) -> None:
    """Visit a city."""


@task
async def total(numbers: list[int]) -> None:
    """Add them up."""


@task
async def plot(point: Point) -> None:
    """Draw it."""


def plainly(function: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """A decorator that treats a coroutine function like a plain one."""

    @functools.wraps(function)
    def call() -> Awaitable[None]:
        return function()

    return call


@task
@plainly
async def wrapped() -> None:
    """Fail in a way of its own."""
    raise KeyError("mine")


@task(max_attempts=2)
async def fail() -> None:
    """Fail in the event loop."""
    raise ValueError("no such page")


@task
def fail_in_a_thread() -> None:
    """Fail in a thread."""
    raise KeyError("page")


# A schema of its own


async def test_a_temporary_schema_is_installed_and_dropped_afterwards(dsn: str, db: asyncpg.Connection) -> None:
    """Concurrent tests have different schemas, and nothing remains."""
    async with temporary_schema(dsn, prefix="shop") as schema:
        before = await db.fetchval("select to_regclass($1) is not null", f"{schema}._jobs")

    assert schema.startswith("shop_")
    assert before
    assert await db.fetchval("select to_regnamespace($1) is null", schema)


async def test_a_temporary_schema_is_dropped_when_the_test_fails(dsn: str, db: asyncpg.Connection) -> None:
    """A failed test leaves no more behind than a passed one."""
    with pytest.raises(ZeroDivisionError):
        async with temporary_schema(dsn) as schema:
            raise ZeroDivisionError

    assert await db.fetchval("select to_regnamespace($1) is null", schema)


async def test_a_temporary_schema_is_dropped_when_a_scope_cancels_its_block(dsn: str, db: asyncpg.Connection) -> None:
    """`fail_after` and failures of other tasks of the group cancel like this: each further await fails there."""
    with anyio.CancelScope() as scope:
        async with temporary_schema(dsn) as schema:
            scope.cancel()

    assert await db.fetchval("select to_regnamespace($1) is null", schema)


async def test_a_temporary_schema_is_dropped_when_its_installation_is_cancelled(
    dsn: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there once its migrations are committed, before anybody knows its name."""
    names: list[str] = []
    with anyio.CancelScope() as scope:

        async def migrated(connection: asyncpg.Connection, schema: str) -> None:
            await migrate_on(connection, schema)
            names.append(schema)
            scope.cancel()

        monkeypatch.setattr("asyncq.testing.schema.migrate_on", migrated)
        async with temporary_schema(dsn):
            pass

    assert scope.cancelled_caught
    assert [True] == [await db.fetchval("select to_regnamespace($1) is null", name) for name in names]


async def test_a_transaction_that_is_left_open_does_not_make_the_test_hang(
    dsn: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema cannot be dropped then. An error with the reason is better than a run that hangs."""
    monkeypatch.setattr("asyncq.testing.schema.DROP_PATIENCE_S", 0.05)
    block = temporary_schema(dsn)
    schema = await block.__aenter__()
    forgotten = db.transaction()
    await forgotten.start()
    await db.execute(f"lock table {schema}._jobs")

    with pytest.raises(StoreError) as caught:
        await block.__aexit__(None, None, None)

    await forgotten.rollback()
    await db.execute(f"drop schema {schema} cascade")
    assert caught.value.sqlstate == "55P03"


# The clock


async def test_a_moved_clock_shows_the_moved_time_and_goes_on(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """A stopped clock would hide faults that depend on time passing."""
    clock = MovableClock(dsn, schema)
    moved = await clock.move(-26304 * HOUR - timedelta(microseconds=1))

    row = await db.fetchrow(f"select pg_catalog.now() - {schema}.now() as now, {schema}.clock() as clock")
    assert row["now"] == 26304 * HOUR + timedelta(microseconds=1)
    assert moved < row["clock"] < moved + SOON


async def test_moves_add_up(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """Moves of two clocks add up too, since the offset is stored in the database."""
    await MovableClock(dsn, schema).move(HOUR)
    await MovableClock(dsn, schema).move(HOUR)

    assert await db.fetchval(f"select {schema}.now() - now()") == 2 * HOUR


async def test_moves_at_the_same_time_add_up_too(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """They wait for each other, since PostgreSQL refuses concurrent replacements of a function."""
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(MovableClock(dsn, schema).move, HOUR)

    assert await db.fetchval(f"select {schema}.now() - now()") == 4 * HOUR


async def test_a_clock_can_be_set(dsn: str, schema: str) -> None:
    """Tests need special days: the end of a month, the night of a change to summer time."""
    clock = MovableClock(dsn, schema)
    new_year = datetime(2031, 1, 1, tzinfo=UTC)

    shown = await clock.set(new_year)

    assert new_year <= shown <= await clock.now() < new_year + SOON


async def test_a_clock_is_right_after_its_block(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """The schema may outlive the test, and any worker may use it again."""
    async with MovableClock(dsn, schema) as clock:
        await clock.move(HOUR)

    await Worker(dsn, [rollup], schema=schema).run_once()
    assert await db.fetchval(f"select {schema}.now() - now()") == timedelta()


async def test_a_clock_is_right_after_a_block_that_a_scope_cancels(
    dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """Otherwise the next test of the schema would have a moved clock."""
    with anyio.CancelScope() as scope:
        async with MovableClock(dsn, schema) as clock:
            await clock.move(HOUR)
            scope.cancel()

    assert await db.fetchval(f"select {schema}.now() = now()")


async def test_the_moved_clock_functions_are_still_inlined(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """The server replans only inlined functions when they are replaced, and a call would slow each fetch."""
    await MovableClock(dsn, schema).move(HOUR)

    plan = await db.fetch(f"explain (verbose, costs off) select {schema}.now(), {schema}.clock()")
    assert schema not in "".join(row[0] for row in plan)


async def test_the_prepared_statements_of_a_running_worker_follow_the_clock(
    dsn: str, schema: str, client: Client
) -> None:
    """The worker sleeps until the next day, is woken by the move, and its old statements see the new time."""
    ran = anyio.Event()

    @task
    async def ring() -> None:
        ran.set()

    clock = MovableClock(dsn, schema)
    async with make_worker(dsn, [ring], schema=schema, poll=60).start():
        await client.add_job(ring)
        with anyio.fail_after(5):
            await ran.wait()
        ran = anyio.Event()
        await client.add_job(ring, run_at=await clock.now() + 24 * HOUR)
        assert not ran.is_set()

        await clock.move(24 * HOUR)
        with anyio.fail_after(5):
            await ran.wait()


async def test_the_prepared_statements_of_a_client_follow_the_clock(dsn: str, schema: str, client: Client) -> None:
    """A plpgsql function keeps the plan of the expression that asks for the time; that is replanned too."""
    client = Client(dsn, schema=schema, pool_size=1)
    async with client:
        before = await client.get_job((await client.add_job(rollup.job("monday"))).id)
        await MovableClock(dsn, schema).move(HOUR)
        after = await client.get_job((await client.add_job(rollup.job("monday"))).id)

    assert HOUR <= after.created_at - before.created_at < HOUR + SOON
    assert HOUR <= after.run_at - before.run_at < HOUR + SOON


async def test_leases_do_not_follow_the_clock(dsn: str, schema: str, client: Client, db: asyncpg.Connection) -> None:
    """Moving the clock by a month must not make workers dead: their jobs are not rescued."""
    started, go_on = anyio.Event(), anyio.Event()

    @task
    async def work() -> None:
        started.set()
        await go_on.wait()

    async with make_worker(dsn, [work], schema=schema, lease=1).start():
        added = await client.add_job(work)
        await started.wait()
        await MovableClock(dsn, schema).move(720 * HOUR)
        other = await run_due(dsn, [work], schema=schema)

        assert await db.fetchval(f"select clock_timestamp() - last_seen < interval '1 minute' from {schema}._workers")
        assert (await client.get_job(added.id)).attempts == 0
        assert other.started == []
        go_on.set()


async def test_an_ordinary_worker_refuses_a_moved_clock(dsn: str, schema: str) -> None:
    """Should a moved clock ever get into real use, nothing runs at a wrong time."""
    await MovableClock(dsn, schema).move(HOUR)

    with pytest.raises(ConfigurationError, match=rf"moved by asyncq\.testing.*`asyncq migrate --schema {schema}`"):
        await Worker(dsn, [rollup], schema=schema).run_once()


async def test_the_clock_of_a_schema_that_is_not_a_tests_is_refused(
    dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """A wrong DSN must not move the time of other programs. A comment marks the schemas of tests."""
    await db.execute(f"comment on schema {schema} is 'in use'")

    with pytest.raises(ConfigurationError, match=f"comment on schema {schema} is 'asyncq.testing'"):
        await MovableClock(dsn, schema).move(HOUR)

    await db.execute(f"comment on schema {schema} is 'asyncq.testing'")
    await MovableClock(dsn, schema).move(HOUR)


async def test_the_clock_of_a_missing_schema_is_refused(dsn: str) -> None:
    """The error says what to do."""
    with pytest.raises(SchemaMissing, match="temporary_schema"):
        await MovableClock(dsn, "nowhere").now()


async def test_a_clock_takes_a_timedelta_and_a_datetime_with_a_zone(dsn: str, schema: str) -> None:
    """A number could mean anything, and a time without a zone depends on the machine."""
    clock = MovableClock(dsn, schema)

    with pytest.raises(ConfigurationError, match="timedelta, got 3600"):
        await clock.move(3600)
    with pytest.raises(ConfigurationError, match="time zone"):
        await clock.set(datetime(2026, 1, 1))  # noqa: DTZ001


# Running what is due


async def test_run_due_reports_the_outcome_of_each_job(dsn: str, schema: str, client: Client) -> None:
    """The outcomes have ids, in order; the errors have the form of `last_error`."""

    @task
    async def end(how: str) -> None:
        match how:
            case "snooze":
                raise Snooze(60)
            case "discard":
                raise Discard("too late")

    well, badly, later, never = [
        (await client.add_job(spec)).id for spec in (end.job("well"), fail.job(), end.job("snooze"), end.job("discard"))
    ]

    ran = await run_due(dsn, [end, fail], schema=schema, concurrency=1)

    assert ran.started == [well, badly, later, never]
    assert ran.tasks == ["end", "fail", "end", "end"]
    assert (ran.completed, ran.retried, ran.snoozed, ran.discarded) == ([well], [badly], [later], [never])
    assert ran.errors[badly].startswith("ValueError: no such page\n\nTraceback")
    assert ran.errors[badly] == (await client.get_job(badly)).last_error
    assert [event.delay_s for event in ran.events if event.job_id == later and hasattr(event, "delay_s")] == [60.0]
    assert repr(ran) == (
        f"Ran(completed=[{well}], retried=[{badly}], discarded=[{never}], snoozed=[{later}], "
        f"errors={{{badly}: 'ValueError: no such page', {never}: 'Discard: too late'}})"
    )


async def test_run_due_reports_nothing_when_nothing_is_due(dsn: str, schema: str, client: Client) -> None:
    """A job of tomorrow stays where it is."""
    added = await client.add_job(rollup.job("monday"), run_at=datetime.now(UTC) + 24 * HOUR)

    ran = await run_due(dsn, [rollup], schema=schema)

    assert repr(ran) == "Ran(nothing)"
    assert (await client.get_job(added.id)).attempts == 0


@task(rate=Rate(2, per="1 day", by="key"))
async def count(key: str) -> None:
    """May not always start."""
    if key == "refused":
        raise RetryAfter(60, "429", partition=True)


HOLDS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "everything": lambda client: client.admin.pause(),
    "task": lambda client: client.admin.pause(task="count"),
    "limit": lambda client: client.admin.pause(limit="count"),
    "key": lambda client: client.admin.pause(limit="count", key="free"),
}


@pytest.mark.parametrize("paused", HOLDS)
async def test_run_due_ends_beside_a_pause_and_reports_what_it_holds_back(
    dsn: str, schema: str, client: Client, paused: str
) -> None:
    """A test must not hang, and must not take a paused job for a lost one."""
    await run_due(dsn, [count], schema=schema)
    await HOLDS[paused](client)
    await client.add_jobs([count.job(key="free")] * 3)
    ran = await run_due(dsn, [count], schema=schema)

    assert ([], {"count": 3}) == (ran.started, ran.held_back)
    assert "Ran(held_back={'count': 3})" == repr(ran)


@pytest.mark.parametrize("key", ["free", "refused"])
async def test_run_once_ends_beside_a_rate_and_a_refused_key(
    dsn: str, schema: str, client: Client, seen: Seen, key: str
) -> None:
    """Those that had started do not count."""
    await run_due(dsn, [count], schema=schema)
    await client.add_jobs([count.job(key=key)] * 5)
    await make_worker(dsn, [count], schema=schema, observers=[seen]).run_once()

    (stopping,) = seen.of(WorkerStopping)
    assert {"count": 3} == stopping.held_back
    assert "nothing more may start: 3 jobs of count wait" == stopping.reason


async def test_run_due_emits_events_to_further_observers(dsn: str, schema: str, client: Client) -> None:
    """Its own observer does not replace them."""
    seen: list[str] = []
    await client.add_job(rollup.job("monday"))

    await run_due(dsn, [rollup], schema=schema, observers=[lambda event: seen.append(type(event).__name__)])

    assert {WorkerStarted.__name__, JobCompleted.__name__} <= set(seen)


async def test_run_due_raises_no_error_of_a_handler(dsn: str, schema: str, client: Client) -> None:
    """Failing jobs are part of many tests."""
    added = await client.add_job(fail)

    ran = await run_due(dsn, [fail], schema=schema)

    assert ran.retried == [added.id]


@pytest.mark.parametrize(
    ("failing", "kind", "said"), [(fail, ValueError, "no such page"), (fail_in_a_thread, KeyError, "page")]
)
async def test_run_due_raises_the_handlers_own_error_when_asked(
    dsn: str, schema: str, client: Client, failing: object, kind: type[Exception], said: str
) -> None:
    """It has the handler's traceback, and the job is settled as usual."""
    added = await client.add_job(failing)
    await client.add_job(rollup.job("monday"))

    with pytest.raises(kind, match=said) as caught:
        await run_due(dsn, [failing, rollup], schema=schema, raise_errors=True)

    assert caught.traceback[-1].name in {"fail", "fail_in_a_thread"}
    assert caught.value.__notes__ == [f"job {added.id} failed: {kind.__name__}: {caught.value}"]
    assert (await client.get_job(added.id)).attempts == 1
    await assert_not_added(client, rollup)


async def test_run_due_raises_the_error_of_an_async_handler_in_a_plain_wrapper(
    dsn: str, schema: str, client: Client
) -> None:
    """The returned coroutine is the one that runs. A task that is given twice counts once."""
    await client.add_job(wrapped)

    with pytest.raises(KeyError, match="mine"):
        await run_due(dsn, [wrapped, wrapped], schema=schema, raise_errors=True)

    assert ((await client.admin.find_jobs(newest=False)).jobs)[0].attempts == 1


async def test_run_due_raises_for_a_payload_that_does_not_decode(dsn: str, schema: str, client: Client) -> None:
    """No handler was called, so there is no error of its own."""
    await client.add_job("rollup", {"day": 7})

    with pytest.raises(AssertionError, match=r"ValidationError.*\$\.day"):
        await run_due(dsn, [rollup], schema=schema, raise_errors=True)


async def test_run_due_does_not_raise_a_snooze(dsn: str, schema: str, client: Client) -> None:
    """It is no failure, not even before one."""

    @task
    async def wait() -> None:
        raise Snooze(60)

    await client.add_job(wait)
    alone = await run_due(dsn, [wait], schema=schema, raise_errors=True)
    await client.add_job(wait)
    await client.add_job(fail)

    assert len(alone.snoozed) == 1
    with pytest.raises(ValueError, match="no such page"):
        await run_due(dsn, [wait, fail], schema=schema, raise_errors=True, concurrency=1)


async def test_run_due_does_not_raise_a_snooze_in_a_group(dsn: str, schema: str, client: Client) -> None:
    """A task group raises it in a group; the test expects the other error."""

    @task
    async def wait_in_group() -> None:
        raise ExceptionGroup("of a task group", [Snooze(60)])

    await client.add_job(wait_in_group)
    await client.add_job(fail)

    with pytest.raises(ValueError, match="no such page"):
        await run_due(dsn, [wait_in_group, fail], schema=schema, raise_errors=True, concurrency=1)


# Looking at what was added


async def test_assert_added_returns_the_jobs_that_fit(client: Client) -> None:
    """They can be used for further assertions, in the order in which they will run."""
    first = await client.add_job(send_email, Email("ada@example.org"))
    await client.add_job(send_email, Email("bob@example.org"))
    urgent = await client.add_job(send_email, Email("ada@example.org", "urgent"), priority=-1)

    found = await assert_added(client, send_email, to="ada@example.org", queue="mail", max_attempts=5)

    assert [job.id for job in found] == [urgent.id, first.id]


@pytest.mark.parametrize(
    "expected",
    [
        {"to": "ada@example.org"},
        {"subject": "hi"},  # a default of the payload's type
        {"queue": "mail"},  # a default of the task
        {"priority": 3, "flags": ["b", "a"], "meta": {"trace": 1}},
        {"run_at": datetime(2031, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
async def test_assert_added_compares_only_the_named_fields(client: Client, expected: dict[str, object]) -> None:
    """These are fields of the payload as the handler sees them, and options of the job."""
    await client.add_job(
        "send_email",
        {"to": "ada@example.org"},
        queue="mail",
        priority=3,
        flags=["a", "b"],
        meta={"trace": 1},
        run_at=datetime(2031, 1, 1, tzinfo=UTC),
    )

    await assert_added(client, send_email, **expected)


@pytest.mark.parametrize(
    "expected",
    [
        {"to": "bob@example.org"},
        {"queue": None},
        {"priority": 1},
        {"flags": ["late"]},
        {"meta": {"trace": 1}},
        {"run_at": datetime(2031, 1, 1, tzinfo=UTC)},
        {"max_attempts": 25},
        {"job_key": "welcome"},
    ],
    ids=str,
)
async def test_assert_added_fails_when_one_thing_differs(client: Client, expected: dict[str, object]) -> None:
    """assert_not_added passes then."""
    await client.add_job(send_email, Email("ada@example.org"))

    with pytest.raises(AssertionError, match=f"differs in {next(iter(expected)).replace('job_key', 'job_key')} "):
        await assert_added(client, send_email, **{"subject": "hi"} | expected)
    await assert_not_added(client, send_email, **{"subject": "hi"} | expected)


async def test_assert_added_compares_whole_payloads(client: Client) -> None:
    """A struct, a list or equal JSON must match completely. A dict names only some of the fields."""
    await client.add_job(send_email, Email("ada@example.org"))
    await client.add_job(total, [1, 2])
    await client.add_job(visit, {"city": "Turin"})
    await client.add_job(rollup.job(day="monday"))

    await assert_added(client, send_email, Email("ada@example.org"))
    await assert_added(client, send_email, {"to": "ada@example.org"}, queue="mail")
    await assert_added(client, total, [1, 2])
    await assert_added(client, visit, city="Turin")
    await assert_added(client, rollup, day="monday", dry_run=False)
    await assert_added(client, rollup)
    await assert_not_added(client, send_email, Email("ada@example.org", "bye"))
    await assert_not_added(client, total, [1, 2, 3])
    await assert_not_added(client, visit, city="Rome")


async def test_assert_added_knows_the_fields_of_every_kind_of_payload(client: Client) -> None:
    """Otherwise a wrong value would look like a missing field, and `assert_not_added` could not fail."""
    await client.add_job(plot, Point(1))

    await assert_added(client, plot, x=1, y=0)
    with pytest.raises(AssertionError, match="waits that has x=1"):
        await assert_not_added(client, plot, x=1)
    with pytest.raises(TypeError):
        await assert_added(client, plot, z=1)
    assert ({"size"}, set()) == (_declared(Attributed), _declared(Nothing))


async def test_assert_added_takes_a_name(client: Client) -> None:
    """Payloads are plain JSON then, without the defaults of the task."""
    await client.add_job("send_email", {"to": "ada@example.org"})

    await assert_added(client, "send_email", to="ada@example.org")
    await assert_not_added(client, "send_email", subject="hi")


async def test_assert_added_sees_the_callers_open_transaction(
    db: asyncpg.Connection, client: Client, schema: str
) -> None:
    """A test may roll everything back at its end."""
    async with db.transaction():
        await client.add_job(send_email, Email("ada@example.org"), connection=db)

        await assert_added(db, send_email, schema=schema, to="ada@example.org")
        await assert_not_added(client, send_email)


async def test_assert_added_shows_the_waiting_jobs(client: Client) -> None:
    """Users then need not debug."""
    added = await client.add_job(send_email, Email("bob@example.org"), run_at=datetime(2031, 1, 1, tzinfo=UTC))
    await client.add_job(rollup.job("monday"))

    with pytest.raises(AssertionError) as caught:
        await assert_added(client, send_email, to="ada@example.org", priority=1)

    assert str(caught.value) == (
        "no waiting job of task 'send_email' has to='ada@example.org', priority=1\n"
        f'  job {added.id}: {{"to":"bob@example.org","subject":"hi"}}, queue \'mail\', priority 0, '
        "run_at 2031-01-01 00:00:00+00:00, attempts 0 of 5, flags []: differs in to ('bob@example.org'), priority (0)\n"
        "not counted: rollup (1 waiting)"
    )


async def test_assert_added_does_not_see_jobs_that_are_discarded(dsn: str, schema: str, client: Client) -> None:
    """They are in the past; the message mentions them."""
    await client.add_job(fail, max_attempts=1)
    await run_due(dsn, [fail], schema=schema)

    with pytest.raises(AssertionError, match=r"no job of it waits\nnot counted: fail \(1 discarded\)"):
        await assert_added(client, fail)


async def test_assert_added_shows_ten_jobs_at_most(client: Client) -> None:
    """A thousand lines would not help."""
    await client.add_jobs([rollup.job("monday")] * 12)

    with pytest.raises(AssertionError) as caught:
        await assert_added(client, rollup, day="friday")

    assert str(caught.value).count("differs in day ('monday')") == 10
    assert str(caught.value).endswith("\n  and 2 more")


async def test_assert_not_added_shows_the_job(client: Client) -> None:
    """It is the unexpected one."""
    added = await client.add_job(rollup.job("monday"))

    with pytest.raises(
        AssertionError, match=rf"a job of task 'rollup' waits that has day='monday':\n  job {added.id}: "
    ):
        await assert_not_added(client, rollup, day="monday")


@task
async def measure(
    n: int, x: float, of: UUID, day: date, color: Color, mail: Email | None = None, tags: list[str] | None = None
) -> None:
    """A task with a field of each kind."""


@pytest.mark.parametrize("look", [assert_added, assert_not_added])
@pytest.mark.parametrize(
    "fields",
    [
        {"n": "1"},
        {"n": 1.5},
        {"n": None},
        {"n": date(2026, 1, 1)},
        {"x": "0.5"},
        {"of": "no uuid"},
        {"day": 5},
        {"day": "monday"},
        {"color": "rde"},
        {"mail": {"to": 1}},
        {"tags": [1]},
    ],
    ids=written,
)
async def test_a_value_that_a_field_never_has_is_an_error(client: Client, look: Any, fields: dict[str, Any]) -> None:
    """A misspelt field is an error too, since `assert_not_added` would always pass."""
    ((name, value),) = fields.items()
    with pytest.raises(TypeError, match=f"field '{name}' of the payload of task 'measure' is .*, and never ") as caught:
        await look(client, measure, **fields)
    assert str(caught.value).endswith(repr(value))
    with pytest.raises(TypeError, match="field 'subject' of the payload of task 'send_email' is str, and never 5"):
        await look(client, send_email, subject=5)


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1, "x": 1},
        {"n": True, "x": True},
        {"n": 1.0},
        {"n": Decimal(1)},
        {"n": pytest.approx(1)},
        {"n": mock.ANY},
        {"of": str(UUID(int=7)), "day": "2026-01-01", "color": "red"},
        {"of": UUID(int=7), "day": date(2026, 1, 1), "color": Color.RED},
        {"mail": {"to": "b", "subject": "hi"}, "tags": ["a"]},
        {"mail": Email("b"), "tags": mock.ANY},
    ],
    ids=written,
)
async def test_a_value_that_a_field_may_have_is_compared(client: Client, fields: dict[str, Any]) -> None:
    """It may be written differently, or define its own comparison."""
    await client.add_job(measure.job(1, 1.0, UUID(int=7), date(2026, 1, 1), Color.RED, Email("b"), ["a"]))

    await assert_added(client, measure, **fields)
    with pytest.raises(AssertionError):
        await assert_not_added(client, measure, **fields)


@pytest.mark.parametrize("look", [assert_added, assert_not_added])
@pytest.mark.parametrize("looked_for", [send_email, greet, rollup, visit])
async def test_a_field_that_the_task_does_not_have_is_an_error(
    client: Client, look: object, looked_for: object
) -> None:
    """A misspelt field would make assert_not_added pass for ever."""
    with pytest.raises(TypeError, match="has no field 'tpo'"):
        await look(client, looked_for, tpo="ada@example.org")


@pytest.mark.parametrize("look", [assert_added, assert_not_added])
@pytest.mark.parametrize("looked_for", [rollup.handler, None, 5])
async def test_an_object_that_is_no_task_or_name_is_an_error(client: Client, look: Any, looked_for: Any) -> None:
    """It is usually a function without its decorator."""
    with pytest.raises(TypeError, match=r"expected a task, or the name of one, got .*decorated with @task"):
        await look(client, looked_for)


async def test_a_connection_needs_the_schema(db: asyncpg.Connection) -> None:
    """A connection does not determine the schema."""
    with pytest.raises(ConfigurationError, match="schema="):
        await assert_added(db, rollup)


async def test_assertions_take_clients_and_connections_only(dsn: str) -> None:
    """A DSN is neither."""
    with pytest.raises(TypeError, match="must be an asyncpg connection"):
        await assert_added(dsn, rollup)


@resource
async def open_press() -> AsyncGenerator[str]:
    """A resource of the worker."""
    raise OSError("no press")
    yield


@task
async def print_page(page: int, press: str = use(open_press), copies: int = 1) -> None:
    """Print, or fail to."""
    if press == "broken":
        raise ValueError(f"page {page} x {copies} is torn")


async def test_a_payload_is_compared_without_resources(client: Client) -> None:
    """No payload has them, and the fields behind them have their defaults."""
    added = await client.add_job(print_page.job(page=3))

    (job,) = await assert_added(client, print_page, page=3, copies=1)

    assert added.id == job.id
    with pytest.raises(
        TypeError, match="the payload of task 'print_page' has no field 'press'; there are copies, page"
    ):
        await assert_added(client, print_page, press="broken")


async def test_run_due_replaces_resources(dsn: str, schema: str, client: Client) -> None:
    """A test brings its own, also one with which the handler fails."""
    await client.add_job(print_page.job(page=3))
    with pytest.raises(ValueError, match="page 3 x 1 is torn"):
        await run_due(dsn, [print_page], schema=schema, overrides={open_press: "broken"}, raise_errors=True)

    await client.add_job(print_page.job(page=4))
    ran = await run_due(dsn, [print_page], schema=schema)

    assert ["OSError: no press"] == [text.partition("\n")[0] for text in ran.errors.values()]

"""`store.crontabs`: items become known, and each slot one job, however many workers there are."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import Known, Slot, slots
from asyncq.domain.task import task
from asyncq.store.crontabs import add_slots, look, register
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.testing import MovableClock
from tests.support.session import Session, session
from tests.support.slots import add_slots as add_in_sql
from tests.support.slots import at, due, jobs, last
from tests.support.waiting import wait_until

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WORKERS = 8
ITEMS = [CronItem(f"task_{number}", "* * * * *") for number in range(5)]


@pytest.fixture
async def lines(database: Database) -> AsyncIterator[list[ReconnectingConnection]]:
    """The lines of several workers."""
    opened = [ReconnectingConnection(database, f"worker {number}") for number in range(WORKERS)]
    yield opened
    for line in opened:
        await line.close()


async def test_the_time_of_recurring_items_is_that_of_the_schema(
    dsn: str, sql: Session, line: ReconnectingConnection
) -> None:
    """A worker's own clock may be wrong by hours: it would add slots that are not due, and pass over those that are."""
    year = timedelta(days=365)
    async with MovableClock(dsn, sql.schema) as clock:
        shown = await clock.move(year)
        seen, _ = await look(line)

    assert shown <= seen < shown + year / 2


async def test_items_become_known_once(line: ReconnectingConnection) -> None:
    """The second start of a worker finds since when its items are known, and fills in from there."""
    first = await register(line, ["b", "a"])

    assert {"a", "b"} == first.keys()
    assert first == await register(line, ["a", "b"])
    assert Known(first["a"].since, None) == first["a"]


async def test_a_slot_that_was_added_is_remembered(line: ReconnectingConnection) -> None:
    """It is the last execution, from which missed slots count."""
    await register(line, ["task_0"])

    await add_slots(line, [Slot(ITEMS[0], NOON)])

    assert NOON == (await register(line, ["task_0"]))["task_0"].last


async def test_the_jobs_of_slots_are_those_of_their_items(line: ReconnectingConnection, sql: Session) -> None:
    """Everything that an item says reaches its job."""
    item = CronItem(
        "t", "* * * * *", payload={"a": 1}, queue="q", priority=-2, max_attempts=3, flags=["f"], job_key="k"
    )
    (added,), _ = await add_slots(line, [Slot(item, NOON, backfilled=True)])

    [row] = await sql.rows("""
        select job.id, queue_name, priority, max_attempts, flags, key, run_at,
          (select payload::text from asyncq._jobs as stored where stored.id = job.id) as payload
        from asyncq.jobs as job""")

    assert ("q", -2, 3, '{"f": true}', "k", NOON) == tuple(row)[1:7]
    assert '{"a":1,"_cron":{"ts":"2024-05-01T12:00:00.000Z","backfilled":true}}' == row["payload"]
    assert (row["id"], "added") == (added.added.id, added.added.outcome)


async def test_only_the_first_call_adds_a_slot(line: ReconnectingConnection) -> None:
    """The second one gets neither a job nor an error."""
    slot = Slot(ITEMS[0], NOON)

    (added, refused), second = await add_slots(line, [slot]), await add_slots(line, [slot])

    assert ([slot], {}) == ([one.slot for one in added], refused)
    assert ([], {}) == second


async def test_an_item_that_the_database_refuses_has_its_own_error(line: ReconnectingConnection, sql: Session) -> None:
    """The cause may be a trigger, a full disk or a new limit. The other slots are added."""
    await sql.execute("""
        create function asyncq.refuse() returns trigger language plpgsql as $$
        begin
          if new.priority = 13 then raise exception 'no luck' using errcode = 'XX013'; end if;
          return new;
        end $$;
        create trigger refuse before insert on asyncq._jobs for each row execute function asyncq.refuse()""")
    bad = CronItem("bad", "* * * * *", priority=13)

    added, refused = await add_slots(line, [Slot(ITEMS[0], NOON), Slot(bad, NOON), Slot(ITEMS[1], NOON)])

    assert [ITEMS[0], ITEMS[1]] == [one.slot.item for one in added]
    assert {"bad": "no luck [XX013]"} == refused
    assert [("task_0", 0), ("task_1", 0)] == await last(sql)


async def test_of_many_workers_one_adds_each_slot(lines: list[ReconnectingConnection], sql: Session) -> None:
    """They start together with unknown items, over ten minutes whose ends each sees a little differently."""
    added: list[tuple[str, datetime]] = []

    async def work(line: ReconnectingConnection, number: int) -> None:
        await line.ready()
        for minute in range(10):
            found = [slot for item in ITEMS for slot in slots(item, at(minute - number % 3), at(minute + 1))]
            done, refused = await add_slots(line, found)
            assert {} == refused
            added.extend((one.slot.item.identifier, one.slot.at) for one in done)

    async with anyio.create_task_group() as group:
        for number, line in enumerate(lines):
            group.start_soon(work, line, number)
    stored = await jobs(sql)

    assert len(added) == len({*added}) == len(stored)
    assert {(item.identifier, minute) for item in ITEMS for minute in range(1, 11)} <= {*stored}


async def test_of_many_workers_one_adds_each_slot_beside_a_bad_item(
    lines: list[ReconnectingConnection], sql: Session
) -> None:
    """Each call then tries its items one by one under all locks: no slot is added twice, and none deadlocks."""
    bad = CronItem("task_2b", "* * * * *", queue="q" * 128)
    await sql.execute("alter table asyncq._jobs add constraint short check (length(queue) < 10)")
    added: list[str] = []
    refused: list[str] = []

    async def work(line: ReconnectingConnection) -> None:
        await line.ready()
        for minute in range(5):
            done, failed = await add_slots(line, [Slot(item, at(minute)) for item in (*ITEMS, bad)])
            added.extend(one.slot.item.identifier for one in done)
            refused.extend(failed.values())

    async with anyio.create_task_group() as group:
        for line in lines:
            group.start_soon(work, line)

    assert sorted(item.identifier for item in ITEMS for _ in range(5)) == sorted(added)
    assert ["[23514]"] * (5 * WORKERS) == [said.split()[-1] for said in refused]
    assert 25 == len(await jobs(sql))


@pytest.mark.parametrize(("end", "expected"), [("commit", []), ("rollback", [("a", 1)])])
async def test_the_second_worker_waits_and_sees_how_the_first_one_ended(
    dsn: str, schema: str, sql: Session, end: str, expected: list[tuple[str, int]]
) -> None:
    """If the first one rolls back, its job is gone and the next one adds the slot."""
    found: list[tuple[str, int]] = []
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(session(dsn, schema))
        second = await stack.enter_async_context(session(dsn, schema))

        async def is_waiting() -> bool:
            return await sql.value("select pg_blocking_pids($1) <> '{}'", second.connection.get_server_pid())

        async def come_second() -> None:
            found.extend(await due(second, ("a", 1)))

        await first.execute("begin")
        await add_in_sql(first, ("a", 1))
        async with anyio.create_task_group() as group:
            group.start_soon(come_second)
            await wait_until(is_waiting, description="the second one to wait")
            await first.execute(end)

    assert expected == found


async def test_two_calls_do_not_deadlock_whatever_the_order_of_their_items(dsn: str, schema: str, sql: Session) -> None:
    """Items are locked by identifier, not in the order of the call or in that of the server's scan.

    One call scans the index, one the table, whose order is reversed. A lock of the middle item ensures that both have
    begun.
    """
    names = ["a", "b", "c", "d", "e"]
    await sql.execute("insert into asyncq.known_crontabs select name, now() from unnest('{e,d,c,b,a}'::text[]) as name")
    added: list[str] = []

    async def work(worker: Session, items: list[str]) -> None:
        added.extend(row["outcome"] for row in await add_in_sql(worker, *((item, 1) for item in items)))

    async def are_waiting() -> bool:
        return 2 == await sql.value("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")

    async with AsyncExitStack() as stack:
        keeper = await stack.enter_async_context(session(dsn, schema))
        by_index = await stack.enter_async_context(session(dsn, schema, enable_seqscan="off", enable_bitmapscan="off"))
        by_table = await stack.enter_async_context(
            session(dsn, schema, enable_indexscan="off", enable_bitmapscan="off")
        )
        await keeper.execute("begin; select from asyncq.known_crontabs where identifier = 'c' for update")
        async with anyio.create_task_group() as group:
            group.start_soon(work, by_index, names)
            group.start_soon(work, by_table, names[::-1])
            await wait_until(are_waiting, description="both to wait")
            await keeper.execute("rollback")

    assert ["added"] * len(names) == added


async def test_a_slot_that_its_unique_policy_drops_is_used_up(line: ReconnectingConnection, sql: Session) -> None:
    """The job of the last slot still waits, and one is enough. The slot is not tried again."""
    item = CronItem(task(name="t", singleton=True)(lambda: None), "* * * * *")

    first, second = await add_slots(line, [Slot(item, at(1))]), await add_slots(line, [Slot(item, at(2))])

    assert ["added", "deduplicated"] == [added[0].added.outcome for added, _ in (first, second)]
    assert ([("t", 1)], [("t", 2)]) == (await jobs(sql), await last(sql))


async def test_with_skip_a_slot_is_dropped_while_a_job_of_its_item_waits(
    line: ReconnectingConnection, sql: Session
) -> None:
    """Slots in the same and in later calls are used up. Another item of the task is not affected."""
    item = CronItem("t", "* * * * *", overlap="skip")
    other = CronItem("t", "* * * * *", identifier="other", overlap="skip")

    first = await add_slots(line, [Slot(item, at(1)), Slot(item, at(2)), Slot(other, at(2))])
    second = await add_slots(line, [Slot(item, at(3))])

    assert ["added", "deduplicated", "added", "deduplicated"] == [
        one.added.outcome for added, _ in (first, second) for one in added
    ]
    assert ([("t", 1), ("t", 2)], [("other", 2), ("t", 3)]) == (await jobs(sql), await last(sql))


async def test_with_skip_a_slot_is_dropped_while_a_job_of_its_item_runs(
    line: ReconnectingConnection, sql: Session
) -> None:
    """This is the usual case: the last run takes longer than a minute."""
    item = CronItem("t", "* * * * *", overlap="skip")
    await add_slots(line, [Slot(item, at(1))])
    await sql.execute("update asyncq._jobs set locked_by = 7, locked_at = asyncq.now(), lock_token = 1")

    (added,), _ = await add_slots(line, [Slot(item, at(2))])

    assert "deduplicated" == added.added.outcome


async def test_with_replace_the_job_of_the_last_slot_makes_room(line: ReconnectingConnection, sql: Session) -> None:
    """One that waits ends, one that runs is cancelled."""
    item = CronItem("t", "* * * * *", overlap="replace")
    await add_slots(line, [Slot(item, at(1))])
    await add_slots(line, [Slot(item, at(2))])
    waiting = await jobs(sql)
    await sql.execute("update asyncq._jobs set locked_by = 7, locked_at = asyncq.now(), lock_token = 1")
    await add_slots(line, [Slot(item, at(3))])

    cancelled = await sql.values("select cancelled_at is not null from asyncq._jobs order by id")

    assert ([("t", 2)], [("t", 2), ("t", 3)], [True, False]) == (waiting, await jobs(sql), cancelled)

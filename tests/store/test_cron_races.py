"""Recurring items that are changed while a slot of them is added: one of the two comes first."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import asyncpg
import pytest

from tests.support.cron_items import add_item, declare, revision
from tests.support.session import Session, session
from tests.support.slots import add_slots, jobs
from tests.support.waiting import wait_until

# A slot of today: stored items are open from when they were stored.
SOON = 60 * 24 * 365 * 20


@pytest.fixture
async def third(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A third session."""
    async with session(dsn, schema) as opened:
        yield opened


async def is_blocked(watcher: Session, blocked: Session) -> bool:
    """Whether a session waits for another one."""
    found: bool = await watcher.value("select pg_blocking_pids($1) <> '{}'", blocked.connection.get_server_pid())
    return found


async def second_waits(
    first: Session, second: Session, watcher: Session, call: Callable[[], Awaitable[Any]], end: str
) -> list[Any]:
    """Call on the second session while the first one's transaction is open, then end that; returns the answer."""
    answers: list[Any] = []

    async def run() -> None:
        try:
            answers.append(await call())
        except asyncpg.PostgresError as error:
            answers.append(error.sqlstate)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await wait_until(lambda: is_blocked(watcher, second), description="the second one to wait")
        await first.execute(end)
    return answers


async def claim(sql: Session, minute: int, number: int | None) -> list[str]:
    """Add a slot of the item `a` under a revision; returns the outcomes."""
    rows = await add_slots(sql, ("a", SOON + minute), identifiers=["t"], revisions=[number])
    return [row["outcome"] for row in rows]


@pytest.mark.parametrize(
    "call",
    [
        "asyncq.pause_cron_item('a')",
        "asyncq.remove_cron_item('a')",
        "asyncq.change_cron_item('a', '{\"expression\": \"@daily\"}')",
    ],
    ids=["pause", "remove", "change"],
)
async def test_a_change_during_the_add_of_a_slot_waits_and_no_later_slot_is_added(
    sql: Session, other: Session, third: Session, call: str
) -> None:
    """After the call has returned, no job of the former item is added."""
    await add_item(sql)
    number = await revision(sql)
    await sql.execute("begin")
    added = await claim(sql, 1, number)
    await second_waits(sql, other, third, lambda: other.rows(f"select {call}"), "commit")

    assert ["added"] == added
    assert [] == await claim(sql, 2, number)
    assert [("t", SOON + 1)] == await jobs(sql)


@pytest.mark.parametrize(
    "call",
    [
        "asyncq.pause_cron_item('a')",
        "asyncq.remove_cron_item('a')",
        "asyncq.change_cron_item('a', '{\"expression\": \"@daily\"}')",
    ],
    ids=["pause", "remove", "change"],
)
@pytest.mark.parametrize(("end", "expected"), [("commit", []), ("rollback", ["added"])])
async def test_a_slot_of_an_item_that_is_being_changed_waits_for_the_change(
    sql: Session, other: Session, third: Session, call: str, end: str, expected: list[str]
) -> None:
    """A worker that checked before the change must not add that slot."""
    await add_item(sql)
    number = await revision(sql)
    await sql.execute("begin")
    await sql.rows(f"select {call}")
    answers = await second_waits(sql, other, third, lambda: claim(other, 1, number), end)

    assert [expected] == answers
    assert len(expected) == len(await jobs(sql))


async def test_a_slot_of_a_removed_item_leaves_no_history(sql: Session) -> None:
    """Otherwise the list would show the item as one of former workers."""
    await add_item(sql)
    number = await revision(sql)
    await sql.rows("select asyncq.remove_cron_item('a')")
    await claim(sql, 1, number)

    assert [] == await sql.values("select identifier from asyncq.known_crontabs")


@pytest.mark.parametrize(("end", "expected"), [("commit", "GWBCX"), ("rollback", "a")])
async def test_of_two_adds_of_one_identifier_the_second_one_is_refused(
    sql: Session, other: Session, third: Session, end: str, expected: str
) -> None:
    """It waits: the first one may be rolled back."""
    await sql.execute("begin")
    await add_item(sql)

    async def add() -> str:
        return str((await add_item(other))["identifier"])

    assert [expected] == await second_waits(sql, other, third, add, end)


async def test_of_two_changes_at_once_both_count(sql: Session, other: Session, third: Session) -> None:
    """Each changes only its members."""
    await add_item(sql)
    await sql.execute("begin")
    await sql.rows("""select asyncq.change_cron_item('a', '{"tz": "Europe/Berlin"}')""")
    change = """select asyncq.change_cron_item('a', '{"queue": "q"}')"""
    await second_waits(sql, other, third, lambda: other.rows(change), "commit")
    stored = json.loads(await sql.value("select definition::text from asyncq._cron_items"))

    assert ("Europe/Berlin", "q") == (stored["tz"], stored["queue"])


@pytest.mark.parametrize(("end", "expected"), [("commit", "deduplicated"), ("rollback", "added")])
async def test_of_two_runs_at_once_with_skip_one_adds(
    sql: Session, other: Session, third: Session, end: str, expected: str
) -> None:
    """The second one waits for the lock of the item."""
    await add_item(sql, overlap="skip")
    run = "select outcome from asyncq._run_cron_item('a')"
    await sql.execute("begin")
    first = await sql.value(run)
    answers = await second_waits(sql, other, third, lambda: other.value(run), end)

    assert ("added", [expected]) == (first, answers)
    assert 1 == len(await jobs(sql))


async def test_a_run_and_a_slot_at_once_with_skip_are_one_job(sql: Session, other: Session, third: Session) -> None:
    """Either may be first, and the slot is used up."""
    await add_item(sql, overlap="skip")
    number = await revision(sql)
    extra = await sql.value("select asyncq._overlap('a', 'skip')::text")
    await sql.execute("begin")
    await sql.rows("select asyncq.run_cron_item('a')")

    async def slot() -> list[str]:
        rows = await add_slots(other, ("a", SOON), identifiers=["t"], revisions=[number], extras=[extra])
        return [row["outcome"] for row in rows]

    assert [["deduplicated"]] == await second_waits(sql, other, third, slot, "commit")
    assert 1 == len(await jobs(sql))


async def test_an_item_that_is_resumed_while_a_worker_fills_in_gets_nothing_of_the_pause(
    sql: Session, other: Session, third: Session
) -> None:
    """The worker read the slots during the pause, and adds them after its end."""
    await add_item(sql)
    number = await revision(sql)
    await sql.execute("update asyncq.known_crontabs set not_before = '2020-01-01 00:00Z'")
    await sql.rows("select asyncq.pause_cron_item('a')")
    await sql.execute("begin")
    await sql.rows("select asyncq.resume_cron_item('a')")
    # It has not seen the pause either: it looks at what was committed before.
    during = await add_slots(other, ("a", 1), ("a", SOON), identifiers=["t"] * 2, revisions=[number] * 2)
    await sql.execute("commit")
    after = await add_slots(other, ("a", 2), ("a", SOON), identifiers=["t"] * 2, revisions=[number] * 2)

    assert ([], ["added"]) == (during, [row["outcome"] for row in after])
    assert [("t", SOON)] == await jobs(third)


async def test_an_item_that_opens_while_another_one_is_waited_for_is_left_to_the_next_call(
    sql: Session, other: Session, third: Session
) -> None:
    """It was resumed after the first check, and is not locked: another worker may be adding its slot."""
    for name in ("a", "b"):
        await add_item(sql, name)
    numbers = [await revision(sql, name) for name in ("a", "b")]
    await sql.rows("select asyncq.pause_cron_item('b')")
    await sql.execute("begin")
    await sql.rows("select asyncq._lock_cron_item('a')")

    async def slots() -> list[int]:
        rows = await add_slots(other, ("a", SOON), ("b", SOON), identifiers=["t"] * 2, revisions=numbers)
        return [row["ord"] for row in rows]

    answers: list[Any] = []

    async def run() -> None:
        answers.append(await slots())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await wait_until(lambda: is_blocked(third, other), description="the call to wait")
        await third.rows("select asyncq.resume_cron_item('b')")
        await sql.execute("commit")
    answers.append(await slots())

    assert [[1], [2]] == answers


async def test_a_stored_item_and_a_worker_that_starts_with_its_name_never_both_add(
    sql: Session, other: Session
) -> None:
    """The worker registers before its first slot. Until then the stored item goes on, and no slot is added twice."""
    await add_item(sql)
    number = await revision(sql)
    before = await claim(sql, 1, number)
    await declare(other, a={"task": "t"})
    refused = await claim(sql, 2, number)
    own = [*await claim(other, 1, None), *await claim(other, 2, None)]
    await sql.execute("delete from asyncq._workers")

    assert (["added"], [], ["added"]) == (before, refused, own)
    assert [("t", SOON + 1), ("t", SOON + 2)] == await jobs(sql)


async def test_an_item_that_is_locked_does_not_delay_the_others(
    dsn: str, schema: str, sql: Session, other: Session
) -> None:
    """A transaction that paused it stays open. The item has its own error, as one that the database refuses."""
    for name in ("a", "b", "c"):
        await sql.execute(f"insert into asyncq.known_crontabs values ('{name}', '2020-01-01 00:00Z')")
    await sql.execute("begin; select asyncq.pause_cron_item('b')")
    async with session(dsn, schema, lock_timeout="50ms") as worker:
        rows = await add_slots(worker, ("c", 1), ("b", 1), ("b", 2), ("a", 1))
    await sql.execute("rollback")

    assert [(1, "added", None), (2, None, "55P03"), (4, "added", None)] == [
        (row["ord"], row["outcome"], row["code"]) for row in rows
    ]
    assert [("c", 1), ("a", 1)] == await jobs(other)


async def test_two_workers_that_both_register_an_item_again_do_not_deadlock(
    dsn: str, schema: str, sql: Session, other: Session, third: Session
) -> None:
    """The first one waits for an item while another is removed. The second one comes before it registers that again."""
    await sql.execute("insert into asyncq.known_crontabs select name, now() from unnest('{a,b}'::text[]) as name")
    await sql.execute("""
        create function pg_temp.let_the_second_come() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(1, 77); return new; end $$;
        create trigger come before insert on asyncq.known_crontabs for each row
          when (current_setting('test.first', true) = 'yes') execute function pg_temp.let_the_second_come()""")
    answers: list[asyncpg.Record] = []

    async def slots(caller: Session) -> None:
        answers.extend(await add_slots(caller, ("a", 1), ("b", 1)))

    async with session(dsn, schema) as second, anyio.create_task_group() as group:
        await sql.execute("begin; delete from asyncq.known_crontabs where identifier = 'b'")
        await sql.execute("select pg_advisory_lock(1, 77)")
        await other.execute("set test.first to 'yes'")
        group.start_soon(slots, other)
        await wait_until(lambda: is_blocked(third, other), description="the first one to wait for b")
        await sql.execute("commit")
        await wait_until(lambda: waits_at_the_door(third, other), description="the first one to make b known")
        group.start_soon(slots, second)
        await wait_until(lambda: is_blocked(third, second), description="the second one to wait")
        await sql.execute("select pg_advisory_unlock(1, 77)")

    assert [("added", None)] * 2 == [(row["outcome"], row["code"]) for row in answers]


async def waits_at_the_door(watcher: Session, blocked: Session) -> bool:
    """Whether a session waits for an advisory lock."""
    pid = blocked.connection.get_server_pid()
    found: bool = await watcher.value(
        "select exists (select from pg_locks where pid = $1 and locktype = 'advisory' and not granted)", pid
    )
    return found


async def test_calls_and_slots_never_deadlock(dsn: str, schema: str, sql: Session) -> None:
    """Every call locks the item first."""
    names = ["a", "b", "c"]
    for name in names:
        await add_item(sql, name, overlap="skip")
    refused: list[str] = []

    async def work(number: int) -> None:
        dice = random.Random(number)
        async with session(dsn, schema) as own:
            for turn in range(25):
                name = dice.choice(names)
                call = dice.choice(
                    [
                        f"select asyncq.pause_cron_item('{name}')",
                        f"select asyncq.resume_cron_item('{name}')",
                        f"select asyncq.run_cron_item('{name}')",
                        f"select asyncq.remove_cron_item('{name}')",
                        f"select asyncq.add_cron_item('{name}', 't', '@daily')",
                        f"""select asyncq.change_cron_item('{name}', '{{"priority": {turn}}}')""",
                        "slots",
                        "slots",
                        "tell",
                    ]
                )
                try:
                    if call == "slots":
                        order = dice.sample(names, 3)
                        await add_slots(own, *((one, SOON + turn) for one in order), identifiers=["t"] * 3)
                    elif call == "tell":
                        found = await own.rows("select identifier, revision from asyncq._cron_items")
                        columns = [[row[part] for row in found] for part in (0, 1)]
                        await own.run("report_cron", *columns, *([[None] * len(found)] * 3))
                    else:
                        await own.rows(call)
                except asyncpg.PostgresError as error:
                    refused.append(error.sqlstate or "")

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(work, number)

    assert {*refused} <= {"GWBCN", "GWBCX", "GWBCS"}

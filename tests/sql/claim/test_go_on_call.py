"""`_go_on_call`: one idle worker is notified of adds; it sleeps only if it can see all earlier jobs."""

import asyncio

import pytest

from tests.support.ear import Ear
from tests.support.session import Session, session

LEVELS = ["read committed", "repeatable read", "serializable"]
REGISTER = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks, forbidden_flags)
values ('1 h', 1, 1, 'h', $1::text[], $2::text[])
"""
QUIET = True
ASK, LEAVE = (False,), (True, False)


async def take(worker: Session, was_mine: bool = False) -> tuple[bool, bool]:
    """Whether this session is on call, and whether all silent adds have ended."""
    ((is_mine, adds_settled, _),) = await worker.run("go_on_call", was_mine)
    return is_mine, adds_settled


async def test_one_session_is_on_call_at_a_time(dsn: str, own: Session) -> None:
    """The next one is on call when the first leaves, or ends."""
    async with session(dsn, own.schema) as first:
        taken = [await take(first), await take(own)]
        await first.run("leave_on_call", *LEAVE)
        taken.append(await take(own))

    assert [(True, QUIET), (False, QUIET), (True, QUIET)] == taken


async def test_a_worker_that_asks_again_holds_the_lock_once(dsn: str, own: Session) -> None:
    """Otherwise one leave would not be enough."""
    async with session(dsn, own.schema) as other:
        asked = [await take(own), await take(own, was_mine=True)]
        await own.run("leave_on_call", *LEAVE)

        assert [(True, QUIET), (True, QUIET)] == asked
        assert (True, QUIET) == await take(other)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_silent_add_keeps_workers_from_sleeping_until_it_has_ended(dsn: str, own: Session, level: str) -> None:
    """It checked before the worker went on call, and commits after that worker's last fetch, which missed the job."""
    async with session(dsn, own.schema) as producer, session(dsn, own.schema) as idle:
        async with producer.connection.transaction(isolation=level.replace(" ", "_")):
            await producer.rows("select asyncq.add_job('t')")
            during = [await take(own), await take(idle)]
            unseen = await own.value("select count(*) from asyncq._jobs")
        after = [await take(own, was_mine=True), await take(idle)]
        seen = await own.value("select count(*) from asyncq._jobs")

    assert [(True, not QUIET), (False, not QUIET)] == during
    assert [(True, QUIET), (False, QUIET)] == after
    assert (0, 1) == (unseen, seen)


@pytest.mark.parametrize("level", LEVELS)
async def test_an_add_with_an_older_snapshot_notifies_the_current_on_call_worker(
    dsn: str, own: Session, level: str
) -> None:
    """A lock decides, not a row that the snapshot hides."""
    async with session(dsn, own.schema) as producer:
        ear = Ear(own)
        async with producer.connection.transaction(isolation=level.replace(" ", "_")):
            await producer.value("select count(*) from asyncq._jobs")
            await ear.open()
            await producer.rows("select asyncq.add_job('t')")
            early = list(await ear.received())

        assert ([], [(f"{own.schema}:jobs", "")]) == (early, await ear.received())


async def test_an_add_that_was_rolled_back_to_a_savepoint_keeps_no_worker_awake(dsn: str, own: Session) -> None:
    """It has no effect; an add before the savepoint still counts."""
    async with session(dsn, own.schema) as producer, producer.connection.transaction():
        await producer.refusal("select asyncq.add_job('t'), 1 / 0")
        undone = await take(own)
        await producer.rows("select asyncq.add_job('t')")
        await own.run("leave_on_call", *LEAVE)
        await producer.rows("select asyncq.add_job('t')")
        left = await take(own)

    assert [(True, QUIET), (True, not QUIET)] == [undone, left]


async def test_an_add_that_notifies_keeps_no_worker_from_sleeping(dsn: str, own: Session) -> None:
    """Otherwise a stream of adds would keep them awake for ever."""
    async with session(dsn, own.schema) as producer, session(dsn, own.schema) as idle:
        await take(own)
        async with producer.connection.transaction():
            await producer.rows("select asyncq.add_job('t')")

            assert (False, QUIET) == await take(idle)


async def test_many_producers_at_once_do_not_pass_for_a_worker_on_call(dsn: str, own: Session) -> None:
    """They hold the lock for the check.

    A worker that mistakes one for the on-call worker would sleep without a cover.
    """
    taken: list[tuple[bool, bool]] = []

    async def ask() -> None:
        async with session(dsn, own.schema) as producer:
            for _ in range(30):
                await producer.rows("select asyncq._has_on_call() from generate_series(1, 50)")

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask()) for _ in range(4)]
        while not all(one.done() for one in asking):
            taken.append(await take(own))
            if taken[-1][0]:
                await own.run("leave_on_call", *LEAVE)

    assert {(True, QUIET)} >= {one for one in taken if one != (False, not QUIET)}


@pytest.mark.parametrize(
    ("second", "is_mixed"),
    [
        ((["a", "b"], None), False),
        ((["a"], None), True),
        ((["a", "b"], ["eu"]), True),
    ],
)
async def test_workers_with_other_tasks_or_flags_are_of_another_kind(
    own: Session, second: tuple[list[str], list[str] | None], is_mixed: bool
) -> None:
    """Neither of them can fetch for the other."""
    await own.rows(REGISTER, ["a", "b"], None)
    await own.rows(REGISTER, *second)
    (found,) = await own.run("go_on_call", *ASK)
    await own.execute("delete from asyncq._workers")

    assert is_mixed == found["is_mixed"]


async def test_while_the_listener_of_a_dead_worker_exists_no_worker_may_fetch_for_all(dsn: str, own: Session) -> None:
    """A stopped process keeps its connections and its turn on call, so others would not be notified."""
    await own.rows(REGISTER, ["a"], None)
    async with session(dsn, own.schema, application_name=f"{own.schema} listen"):
        (alive,) = await own.run("go_on_call", *ASK)
        await own.execute("update asyncq._workers set last_seen = now() - interval '1 day'")
        (dead,) = await own.run("go_on_call", True)  # noqa: FBT003
    await own.execute("delete from asyncq._workers")

    assert [False, True] == [alive["is_mixed"], dead["is_mixed"]]

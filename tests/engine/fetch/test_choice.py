"""A worker with a choice: shares of its slots, and how often it fetches beside jobs of others."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobCompleted, Queue, Share, Worker, task
from asyncq.domain.share import Portion, choice_of
from asyncq.domain.task import Registry
from asyncq.engine.base.identity import Identity
from asyncq.engine.fetch import cursor
from asyncq.engine.fetch.shares import Shares
from asyncq.store.claim import Fetched
from asyncq.store.database import ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.engine.fetch.test_buffer import claim
from tests.support.seen import Seen
from tests.support.waiting import wait_until

FETCHES = ("fetch_jobs", "fetch_partitions", "next_due")


async def test_slots_are_divided_by_weight_while_all_have_jobs(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A queue whose jobs were added first gets no more than its part, also when single slots become free."""
    leave, started = asyncio.Semaphore(0), Counter[str]()

    @task
    async def work(queue: str) -> None:
        started[queue] += 1
        await leave.acquire()

    many = [Queue(name, concurrency=50) for name in "ab"]
    await client.add_jobs([work.job(name).with_options(queue=name) for name in "ba" for _ in range(40)])
    shares = [Share("a", weight=3), Share("b")]
    async with make_worker(work, *many, concurrency=8, queues=shares).start():
        await wait_until(lambda: started.total() == 8, description="eight calls")
        first = started.copy()
        for ended in range(1, 21):
            leave.release()
            await wait_until(lambda: started.total() == 8 + ended, description="the next call")  # noqa: B023
        then = started.copy()
        for _ in range(60):
            leave.release()
        await seen.wait_for(JobCompleted, 80)

    assert {"a": 6, "b": 2} == first
    # Claims that wait for a slot are a part of their share too, and start in their order.
    assert then["a"] in range(18, 25)


async def test_a_share_is_held_where_jobs_come_by_queues_one_by_one(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The end of a job lets no job of its queue follow past the share."""
    running, most = set[int](), 0

    @task
    async def work(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.discard(number)

    many = Queue("a", concurrency=50)
    await client.add_jobs([work.job(number).with_options(queue="a") for number in range(40)])
    async with make_worker(work, many, concurrency=8, queues=[Share("a", at_once=3)]).start():
        await seen.wait_for(JobCompleted, 40)

    assert 3 == most


async def test_the_next_job_of_a_queue_that_is_not_named_is_not_taken(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A worker that runs a limit takes jobs of its tasks from any queue, and leaves there those of other tasks."""

    @task(concurrency=5)
    async def limited() -> None:
        pass

    @task
    async def other() -> None:
        pass

    for each in (limited, other, limited):
        await client.add_job(each.job().with_options(queue="q"))
    async with make_worker(limited, other, queues=["limited"]).start():
        await seen.wait_for(JobCompleted, 2)

    assert {"limited"} == {event.task for event in seen.of(JobCompleted)}


@pytest.mark.parametrize(
    "options",
    [{"exclude": ["others"]}, {"queues": ["mine"]}, {"queues": [Share("mine", at_once=1), Share("more", weight=2)]}],
    ids=["exclude", "queues", "shares"],
)
async def test_an_idle_worker_fetches_once_a_poll_beside_wakeups_of_others(
    dsn: str,
    schema: str,
    client: Client,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    """10,000 wait for workers that take them. On a slow machine too, no fetch is followed by one for its cost."""
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)
    sent = Counter[str]()
    real = ReconnectingConnection.fetch

    async def fetch(line: ReconnectingConnection, name: str, *args: Any) -> Any:
        sent[name] += 1
        return await real(line, name, *args)

    @task
    async def work() -> None:
        pass

    await client.add_job(work.job().with_options(queue="others"))
    await db.execute(
        f"""insert into {schema}._wakeups (at, partition, job_id, task_id, priority)
        select at, partition, job_id, task_id, priority from {schema}._wakeups cross join generate_series(1, 10000)"""
    )
    monkeypatch.setattr(ReconnectingConnection, "fetch", fetch)
    async with Worker(dsn, [work], schema=schema, poll=60, listen=False, **options).start():
        await wait_until(lambda: sent["next_due"] > 0, description="the worker is idle")
        before = sent.copy()
        await asyncio.sleep(0.2)

        assert 1 == before["next_due"]
        assert [before[name] for name in FETCHES] == [sent[name] for name in FETCHES]


async def test_slots_that_a_share_leaves_are_for_the_others() -> None:
    """Each portion that came short is asked once, with the part that it had; those that are full are not asked."""
    shares = _shares(Share("a", weight=3), Share("b", at_once=6), Share("c"))
    asked, left = list[tuple[str, int]](), {"a": 1, "b": 9, "c": 9}

    async def fetch(room: int, portion: Portion) -> Fetched:
        name = portion.share.name if portion.share else "none"
        asked.append((name, room))
        count = min(room, left.get(name, 0))
        claims = [claim(100 * len(asked) + number) for number in range(count)]
        shares.hold(portion, claims)
        return Fetched(claims, again_s=None if count == room else 0.005)

    first = await shares.fetch(12, fetch)
    again = await shares.fetch(2, fetch)

    assert 12 == len(first.claims)
    assert first.again_s is None
    assert [("none", 2), ("a", 6), ("b", 2), ("c", 2), ("b", 4), ("c", 3)] == asked[:6]
    assert {"b"}.isdisjoint(name for name, _ in asked[6:])
    assert 2 == len(again.claims)


async def test_a_claim_that_ends_gives_its_slot_back_to_its_share() -> None:
    """Once, however it ends."""
    shares = _shares(Share("a", at_once=2))
    rooms: list[int] = []

    async def fetch(room: int, portion: Portion) -> Fetched:
        if portion.share is None:
            return Fetched([])
        rooms.append(room)
        claims = [claim(len(rooms) * 10 + number) for number in range(room)]
        shares.hold(portion, claims)
        return Fetched(claims)

    came = (await shares.fetch(5, fetch)).claims
    nothing = (await shares.fetch(5, fetch)).claims
    for _ in range(2):
        shares.ended(came[0])
    await shares.fetch(5, fetch)

    assert (2, 0, [2, 1]) == (len(came), len(nothing), rooms)


def _shares(*shares: Share) -> Shares:
    return Shares(choice_of(shares, None, concurrency=100), Identity(Registry([])))

"""A settlement waits for nobody, and ends only its own claims."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asyncq.domain.outcome import Settlement
from asyncq.store import settle as store
from asyncq.store.database import ReconnectingConnection
from tests.support.gate import Gate
from tests.support.jobs import WORKER, add, add_many, change, claimed, complete, fetch, locked_queues, stray_queues
from tests.support.session import Session

Settle = Callable[..., Awaitable[list[int]]]

COMPLETED: dict[str, Any] = {"end": "completed"}
FAILED: dict[str, Any] = {"attempts": 1, "delay_s": 60.0, "error": "e"}
KINDS = pytest.mark.parametrize("kind", [COMPLETED, FAILED], ids=["completed", "failed"])


def settlements(claims: list, kind: dict) -> list[Settlement]:
    """Settle all claims in the same way, in no particular order."""
    return [Settlement(claim["id"], claim["lock_token"], claim["partition"], **kind) for claim in reversed(claims)]


@KINDS
async def test_a_locked_row_is_reported_as_later_and_not_waited_for(
    line: ReconnectingConnection, sql: Session, other: Session, kind: dict
) -> None:
    """One open transaction of a user with one of the jobs must not stop a batch of five hundred."""
    await add_many(sql, 3, queue="'q' || i")
    claims = await fetch(sql)
    ended = settlements(claims, kind)
    async with other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", claims[1]["id"])
        endings = await store.settle_rest(line, WORKER, ended)
        queues = await locked_queues(sql)
    first, second, third = (claim["id"] for claim in claims)

    assert ({first: "written", second: "held", third: "written"}, ["q2"]) == (endings, queues)
    assert {first: "lost", second: "written", third: "lost"} == await store.settle_rest(line, WORKER, ended)
    assert [] == await locked_queues(sql)


@KINDS
async def test_a_claim_that_was_taken_over_is_lost(line: ReconnectingConnection, sql: Session, kind: dict) -> None:
    """A rescue returned it, and another worker took it."""
    await add(sql, queue="q")
    old = await fetch(sql)
    await sql.rows("select from asyncq._rescue_jobs(true)")
    new = await fetch(sql, worker=2, token=2)

    assert {new[0]["id"]: "lost"} == await store.settle_rest(line, WORKER, settlements(old, kind))
    assert ([new[0]["id"]], ["q"]) == (await claimed(sql), await locked_queues(sql))


@KINDS
async def test_a_claim_of_the_same_worker_from_a_later_fetch_is_another_claim(
    line: ReconnectingConnection, sql: Session, kind: dict
) -> None:
    """A first run that lost its claim must not settle the second run of the same job by the same worker."""
    await add(sql)
    old = await fetch(sql, token=1)
    await sql.rows("select from asyncq._rescue_jobs(true)")
    await fetch(sql, token=2)

    assert {old[0]["id"]: "lost"} == await store.settle_rest(line, WORKER, settlements(old, kind))
    assert [old[0]["id"]] == await claimed(sql)


@pytest.mark.parametrize("settle", [complete, change])
async def test_a_claim_that_changes_hands_during_a_settlement_is_not_settled(
    gate: Gate, guarded: Session, other: Session, settle: Settle
) -> None:
    """The claim is compared in the node that locks, and so again on the newest row."""
    job = await add(other, queue="q")
    claims = await fetch(other)
    await settle(guarded, [{**claims[0], "lock_token": 99}])
    take_over = other.execute("""
        update asyncq._jobs set lock_token = 2""")

    assert [] == await gate.during(settle(guarded, claims), take_over)
    assert ([job], ["q"]) == (await claimed(other), await locked_queues(other))


async def test_a_row_that_changes_during_a_settlement_keeps_its_queue_and_is_settled_by_the_next_one(
    gate: Gate, guarded: Session, other: Session
) -> None:
    """Its claim exists, but the row has moved. Neither the job nor the lock of its queue may end alone."""
    job = await add(other, queue="q")
    stays = await add(other, queue="still")
    claims = await fetch(other)
    await complete(guarded, [{**claims[0], "lock_token": 99}])
    touch = other.execute(f"update asyncq._jobs set key = null, revision = revision + 1 where id = {job}")

    assert [stays] == await gate.during(complete(guarded, claims), touch)
    assert ([job], ["q"]) == (await claimed(other), await locked_queues(other))
    assert [job] == await complete(guarded, claims)
    assert ([], []) == (await claimed(other), await locked_queues(other))


async def test_settling_in_any_order_settles_all(line: ReconnectingConnection, sql: Session) -> None:
    """The statement needs sorted ids; its caller need not know that."""
    await add_many(sql, 50)
    ended = settlements(await fetch(sql, 50), COMPLETED)
    mixed = [*ended[::2], *ended[1::2]]

    assert {item.id: "written" for item in ended} == await store.settle_rest(line, WORKER, mixed)


async def test_all_kinds_of_ends_are_settled_in_one_call(line: ReconnectingConnection, sql: Session) -> None:
    """A batch of the completer is what happened meanwhile."""
    await add_many(sql, 4)
    claims = await fetch(sql)
    kinds = [COMPLETED, FAILED, {"delay_s": 5.0}, {}]
    ended = [
        Settlement(claim["id"], claim["lock_token"], None, **kind) for claim, kind in zip(claims, kinds, strict=True)
    ]
    endings = await store.settle_rest(line, WORKER, ended)
    left = await sql.rows(
        "select attempts, last_error, extract(epoch from run_at - now())::int from asyncq._jobs order by id"
    )

    assert {claim["id"]: "written" for claim in claims} == endings
    assert [(1, "e", 60), (0, None, 5), (0, None, 0)] == [tuple(row) for row in left]


async def test_settling_twice_changes_nothing(line: ReconnectingConnection, sql: Session) -> None:
    """The answer of the first time was lost."""
    await add_many(sql, 2)
    first, second = await fetch(sql)
    ended = [*settlements([first], COMPLETED), *settlements([second], FAILED)]
    await store.settle_rest(line, WORKER, ended)

    assert {item.id: "lost" for item in ended} == await store.settle_rest(line, WORKER, ended)
    assert [1] == await sql.values("select attempts from asyncq._jobs")


async def test_settling_nothing_is_no_error(line: ReconnectingConnection) -> None:
    """Empty arrays are arrays."""
    assert {} == await store.settle_rest(line, WORKER, [])


async def test_a_settlement_of_a_lost_claim_does_not_free_its_queue(line: ReconnectingConnection, sql: Session) -> None:
    """The job was returned, and another worker has claimed it."""
    await add(sql, queue="q")
    claims = await fetch(sql)
    await change(sql, claims)
    await fetch(sql, worker=2, token=2)
    await store.settle_rest(line, WORKER, settlements(claims, COMPLETED))

    assert (["q"], []) == (await locked_queues(sql), await stray_queues(sql))


async def test_a_failure_that_is_settled_twice_is_recorded_once(line: ReconnectingConnection, sql: Session) -> None:
    """The answer of the first time was lost, and the next run of the job may have begun."""
    job = await add(sql)
    first = settlements(await fetch(sql, token=1), {**FAILED, "delay_s": 0.0, "kind": "failed", "duration_s": 1.0})
    await store.settle_rest(line, WORKER, first)
    await fetch(sql, token=2)

    assert {job: "lost"} == await store.settle_rest(line, WORKER, first)
    assert [(job, 1)] == [tuple(row) for row in await sql.rows("select job_id, number from asyncq.attempts")]

"""`_back_off`: the partitions of claims start nothing for a while."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.support.jobs import BATCH_FROM, add, fetch, fetched
from tests.support.session import Session

BACK_OFF = """
    select job_id, partition_id, limit_name, key, until - asyncq.now() as wait from asyncq._back_off($1, $2, $3, $4)"""
OTHER = 2


@pytest.fixture(autouse=True, params=[1000, 1], ids=["row by row", "batched"])
def claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch claims in rows, or in batches."""
    monkeypatch.setitem(BATCH_FROM, "rows", request.param)


async def back_off(
    sql: Session, claims: Sequence[Mapping[str, Any]], *delays_s: float, worker: int = 1
) -> list[tuple[Any, ...]]:
    """Let the partitions of claims wait. Returns the rows of the answer."""
    ids, tokens = [claim["id"] for claim in claims], [claim["lock_token"] for claim in claims]
    return [tuple(row) for row in await sql.rows(BACK_OFF, worker, ids, tokens, list(delays_s))]


async def waits(sql: Session) -> list[bool]:
    """Of each partition whether it waits."""
    return await sql.values("select not_before is not null from asyncq._partitions order by id")


async def test_a_queue_waits_for_the_longest_time_that_was_asked_for(sql: Session) -> None:
    """The running job runs on; the next one starts after that time. The limit of queues has no name."""
    job = await add(sql, queue="q")
    claims = await fetch(sql)
    partition = await sql.value("select id from asyncq._partitions")
    asked = [await back_off(sql, claims * len(delays), *delays) for delays in ([5.0, 30.0], [10.0])]
    await sql.execute("select asyncq.force_unlock_workers(array['1'])")
    moment = await sql.value("select asyncq.now()")
    found = [await fetched(sql, now=moment + timedelta(seconds=seconds)) for seconds in (29, 31)]

    assert [[(job, partition, None, "q", timedelta(seconds=30))]] * 2 == asked
    assert [0, 1] == [len(claims) for claims in found]


async def test_each_claim_lets_its_own_partition_wait(sql: Session) -> None:
    """The answer has one row for each partition."""
    for queue in "ab":
        await add(sql, queue=queue)
    claims = await fetch(sql)
    asked = await back_off(sql, claims, 10.0, 20.0)

    assert {("a", 10), ("b", 20)} == {(key, wait.seconds) for _, _, _, key, wait in asked}


async def test_a_claim_that_is_lost_lets_nothing_wait(sql: Session) -> None:
    """Another worker was given the job, or the same one in another fetch."""
    await add(sql, queue="q")
    (claim,) = await fetch(sql)
    asked = [
        await back_off(sql, [claim], 30.0, worker=OTHER),
        await back_off(sql, [claim | {"lock_token": claim["lock_token"] + 1}], 30.0),
    ]
    await sql.execute("select asyncq.force_unlock_workers(array['1'])")
    asked.append(await back_off(sql, [claim], 30.0))

    assert ([[], [], []], [False]) == (asked, await waits(sql))


async def test_a_job_without_a_partition_lets_nothing_wait(sql: Session) -> None:
    """Its task had a limit when the run began, and has lost it."""
    await add(sql)

    assert [] == await back_off(sql, await fetch(sql), 30.0)

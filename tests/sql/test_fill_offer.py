"""`fill_offer`: one statement that hands a job over as `_add_keyless_job` does."""

import asyncio
import json
from typing import Any

import pytest

from asyncq.store.statements import query
from tests.sql.offering import FIRST, HOLD, OFFER, add_at_once, holders, offering
from tests.sql.session import Session, session
from tests.sql.test_plans import nodes
from tests.waiting import wait_until

PAYLOAD = '{"b" :1,\n "a":"ü\\u0041\\"", "big": 12345678901234567890.10}'
TIME_STANDS = """
create or replace function asyncq.now() returns timestamptz language sql stable
as $$ select '2026-01-01'::timestamptz $$
"""
# As the client's own connections plan it, once for all parameters.
PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}


async def fill(sql: Session, task: str = "t", payload: str = "{}", *numbers: int | None) -> int | None:
    """Add a job; its id, or None if no offer was filled."""
    rows = await sql.run("fill_offer", task, payload, *(numbers or (None, None)))
    return rows[0]["id"] if rows else None


@pytest.mark.parametrize("numbers", [(None, None), (3, -7)], ids=["defaults", "others"])
async def test_what_is_stored_and_told_is_what_the_function_stores_and_tells(
    own: Session, idle: Session, numbers: tuple[int | None, int | None]
) -> None:
    """Except for the id, the token, and the time of the claim."""
    told: list[str] = []
    channel = f"{own.schema}:told"  # which no other test uses at the same time
    await idle.connection.add_listener(channel, lambda *about: told.append(about[3]))
    await own.execute(TIME_STANDS)
    worker = await offering(idle, FIRST, channel=channel)
    jobs = [await fill(own, "t", PAYLOAD, *numbers)]
    await wait_until(lambda: told, description="the first job")
    await idle.run("make_offer", worker, FIRST + 1, FIRST, "{1}", "{1}", channel, not HOLD)
    jobs.append(await add_at_once(own, payload=PAYLOAD, max_attempts=numbers[0], priority=numbers[1]))
    await wait_until(lambda: len(told) == 2, description="the second job")
    first, second = await own.values(
        "select to_jsonb(b) - '{ids,lock_token}'::text[] from asyncq._batches as b order by ids"
    )

    assert jobs == await own.values("select id from asyncq._all_jobs() order by id")
    assert [FIRST, FIRST + 1] == await holders(own)
    assert first == second
    (*one, _), (*other, _) = map(json.loads, told)
    assert [[FIRST, jobs[0]], [FIRST + 1, jobs[1]]] == [one[:2], other[:2]]
    assert one[2:] == other[2:]


async def test_an_offer_is_filled_once(own: Session, idle: Session) -> None:
    """The second add has done nothing, and is told so."""
    await offering(idle, FIRST)
    filled = [await fill(own) for _ in range(2)]

    assert filled == [*await own.values("select id from asyncq._all_jobs()"), None]


@pytest.mark.parametrize(
    "spoil",
    [
        "update asyncq._offers set packable_ids = '{}'",
        "update asyncq._offers set packable_ids = '{2}'",
        "update asyncq._tasks set retired_in = '1'",
        "delete from asyncq._batches",
        "update asyncq._batches set ids = '{1}'",
        "update asyncq._batches set lock_token = 12",
    ],
    ids=["the context is taken", "another task", "retired", "withdrawn", "taken", "made anew"],
)
async def test_no_other_offer_is_filled(own: Session, idle: Session, spoil: str) -> None:
    """Each of them is for the function, or for nobody."""
    await offering(idle, FIRST)
    await own.execute(spoil)

    assert await fill(own) is None


async def test_the_offer_of_a_worker_that_does_not_listen_is_passed_over(own: Session, idle: Session) -> None:
    """Its process was killed a moment ago: nobody would hear."""
    worker = await offering(idle, FIRST)
    await idle.value("select pg_advisory_unlock(asyncq._lock_space(), $1)", -1 - worker)

    assert await fill(own) is None


async def test_of_two_at_once_one_fills_it_and_none_waits(dsn: str, own: Session, idle: Session) -> None:
    """The first one holds the offer until it has committed, or leaves it as it was."""
    await offering(idle, FIRST)
    async with session(dsn, own.schema) as first:
        transaction = first.connection.transaction()
        await transaction.start()
        await fill(first)
        async with asyncio.timeout(5):
            beside = await fill(own)
        await transaction.rollback()
    before = await own.row(OFFER)
    after = await fill(own)

    assert (None, (FIRST, False)) == (beside, tuple(before))
    assert [after] == await own.values("select id from asyncq._all_jobs()")


@pytest.mark.parametrize("off", [(), ("tidscan",), ("tidscan", "hashjoin")], ids=str)
async def test_one_of_several_offers_is_filled_however_the_planner_joins(
    dsn: str, own: Session, idle: Session, off: tuple[str, ...]
) -> None:
    """To the planner there is one batch: a join would look for an offer once for each, and add the job as often."""
    for token in (FIRST, FIRST + 1, FIRST + 2):
        await offering(idle, token)
        if token == FIRST:
            await own.execute("analyze asyncq._batches")
    settings = {f"enable_{name}": "off" for name in off}
    async with session(dsn, own.schema, enable_seqscan="on", **settings) as adder:
        jobs = [await fill(adder)]

    assert jobs == await own.values("select id from asyncq._all_jobs()")


async def test_however_many_batches_there_are_it_looks_offers_up_by_their_key(dsn: str, own: Session) -> None:
    """Also by a plan that was made while there were none."""
    async with session(dsn, own.schema, **PLANS) as client:
        await client.execute(f"prepare it as {query('fill_offer', client.schema)}")
        answer = await client.connection.fetchval("explain (format json) execute it('t', '{}', null, null)")
    ((plan, *_),) = [json.loads(answer)]
    scans: dict[str, list[Any]] = {}
    for node in nodes(plan["Plan"]):
        if node.get("Relation Name") == "_batches" and "Scan" in node["Node Type"]:
            scans.setdefault(node["Node Type"], []).append(node.get("Index Cond") or node.get("TID Cond"))

    assert "CTE free" in [node.get("Subplan Name") for node in nodes(plan["Plan"])], "looked for once"
    assert {"Index Scan", "Tid Scan"} == set(scans)
    assert all("lock_token" in condition for condition in scans["Index Scan"])

"""`_add_keyless_job` at once: the job is claimed for a worker that offers to take one, and sent along."""

import asyncio
import json
from typing import Any

import pytest

from asyncq.store.claim import read_claim
from asyncq.store.handoff import handed_over
from tests.sql.jobs import fetch
from tests.sql.offering import AT_ONCE, CHANNEL, FIRST, HOLD, OFFER, add_at_once, holders, offering
from tests.sql.session import Session, session
from tests.waiting import wait_until

THOROUGH = True
TIME_STANDS = """
create or replace function asyncq.now() returns timestamptz language sql stable
as $$ select '2026-01-01'::timestamptz $$
"""
PAYLOAD = '{"b" :1,\n "a":"ü\\u0041\\"", "big": 12345678901234567890.10}'


both_ways = pytest.mark.parametrize("packs", [True, False], ids=["in a batch", "as a row"])


@pytest.mark.parametrize("meta", [None, '{"m": [1, "é"]}'], ids=["in a batch", "as a row"])
async def test_what_is_told_is_what_a_fetch_would_bring(own: Session, idle: Session, meta: str | None) -> None:
    """To the byte: the payload is not rewritten on its way."""
    told: list[str] = []
    channel = f"{own.schema}:told"  # which no other test uses at the same time
    await idle.connection.add_listener(channel, lambda *about: told.append(about[3]))
    worker = await offering(idle, FIRST, channel=channel)
    job = await add_at_once(own, payload=PAYLOAD, meta=meta)
    await wait_until(lambda: told, description="the job")
    unpacked = await own.rows("select from asyncq._unpack_claims($1, $2)", worker, [FIRST])
    claim, made_at = handed_over(told[0]) or (None, 0.0)
    held = await own.row("select locked_by, lock_token, locked_at = run_at, pg_typeof(id)::text from asyncq._jobs")
    await own.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    (row,) = await fetch(own, token=FIRST, worker=worker)

    assert (meta is None) == bool(unpacked)
    assert (job, PAYLOAD, (worker, FIRST, True)) == (claim and claim.id, claim and claim.payload, tuple(held)[:3])
    assert read_claim(*row.values()) == claim
    assert 0 <= await own.value("select extract(epoch from clock_timestamp())::float8") - made_at < 60


@both_ways
async def test_an_offer_is_for_one_job(own: Session, idle: Session, *, packs: bool) -> None:
    """The second job is anybody's, whatever has become of the worker meanwhile."""
    await offering(idle, FIRST, packs=packs)
    for _ in range(2):
        await add_at_once(own)

    assert [FIRST, None] == await holders(own)


@pytest.mark.parametrize(
    "option",
    [
        {"queue": "q"},
        {"run_at": "2000-01-01T00:00:00+00:00"},
        {"flags": '{"f": true}'},
        {"payload": json.dumps("x" * 7000)},
        {"payload": json.dumps("x" * 4000), "meta": json.dumps({"m": "x" * 4000})},
        {"task": "u"},
    ],
    ids=["queue", "run_at", "flags", "payload", "meta", "task"],
)
async def test_what_needs_a_decision_or_has_no_room_is_fetched(
    own: Session, idle: Session, option: dict[str, Any]
) -> None:
    """A queue may be busy, a flag forbidden, an earlier job be first; a notification has 8,000 bytes."""
    await offering(idle, FIRST)
    await add_at_once(own, **option)

    assert [None] == await holders(own)


@pytest.mark.parametrize(
    ("option", "rows"),
    [
        ({"payload": json.dumps("x" * 998)}, 0),
        ({"payload": json.dumps("x" * 999)}, 1),
        ({"meta": "{}"}, 1),
        ({"max_attempts": 1, "priority": -7}, 0),
    ],
    ids=["small", "large", "meta", "other numbers"],
)
async def test_what_a_batch_has_no_room_for_gets_a_row(
    own: Session, idle: Session, option: dict[str, Any], rows: int
) -> None:
    """Claimed all the same; no empty batch is left that could be taken once more."""
    await offering(idle, FIRST)
    job = await add_at_once(own, **option)
    shown = "select id, priority, least(max_attempts, 1) from asyncq._all_jobs() where lock_token = $1"
    job_as_added = job, option.get("priority", 0), option.get("max_attempts", 1)

    assert job_as_added == tuple(await own.row(shown, FIRST))
    assert (rows, 1 - rows) == tuple(
        await own.row("select (select count(*) from asyncq._jobs), (select count(*) from asyncq._batches)")
    )


async def test_what_no_row_may_hold_gets_into_no_batch(own: Session, idle: Session) -> None:
    """The table's rules are not the batches'."""
    await offering(idle, FIRST)
    refused = await own.refusal("select asyncq._add_keyless_job('t', '{}', null, null, 0, null, null, null, true)")

    assert "jobs_max_attempts_check" in str(refused)
    assert (FIRST, False) == tuple(await own.row(OFFER))


async def test_a_job_in_a_batch_is_as_a_row_would_have_been(own: Session, idle: Session) -> None:
    """Whoever unpacks it gets that row, but for the id."""
    worker = await offering(idle, FIRST)
    await own.execute(TIME_STANDS)
    packed = await add_at_once(own, payload=PAYLOAD, max_attempts=3, priority=5)
    await own.rows("select from asyncq._unpack_claims($1, $2)", worker, [FIRST])
    await idle.run("make_offer", worker, FIRST, FIRST, "{1}", "{}", CHANNEL, not HOLD)
    whole = await add_at_once(own, payload=PAYLOAD, max_attempts=3, priority=5)
    rows = await own.values("select to_jsonb(job) - 'id' from asyncq._jobs as job order by id")

    assert [packed, whole] == await own.values("select id from asyncq._jobs order by id")
    assert 2 == len(rows)
    assert rows[0] == rows[1]


async def test_the_largest_job_that_is_told_has_room(own: Session, idle: Session) -> None:
    """Of two bytes a character, as most that is not English."""
    await offering(idle, FIRST)
    await add_at_once(own, payload='"' + "ü" * 3499 + '"')

    assert [FIRST] == await holders(own)


async def test_a_transaction_of_a_caller_takes_no_offer(own: Session, idle: Session) -> None:
    """It may last; a worker would wait for its end before it can stop."""
    await offering(idle, FIRST)
    await own.run("add_keyless_job", "t", "{}", *[None] * 6, not AT_ONCE)

    assert [None] == await holders(own)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_at_other_levels_no_offer_is_taken_and_nothing_fails(
    dsn: str, own: Session, idle: Session, level: str
) -> None:
    """A role may have one of them as its default; an offer that was just renewed would be an error there."""
    worker = await offering(idle, FIRST)
    async with session(dsn, own.schema) as adder:
        await adder.execute(f"set default_transaction_isolation = '{level}'")
        async with adder.connection.transaction(isolation=level.replace(" ", "_")):
            await adder.value("select 1")
            await idle.run("make_offer", worker, FIRST + 1, 0, "{1}", "{1}", CHANNEL, not FIRST)
            await add_at_once(adder)

    assert [None] == await holders(own)


async def test_a_worker_that_does_not_listen_any_more_is_passed_over(own: Session, idle: Session) -> None:
    """Its process was killed a moment ago: nobody would hear."""
    worker = await offering(idle, FIRST)
    await idle.value("select pg_advisory_unlock(asyncq._lock_space(), $1)", -1 - worker)
    assert await own.value("select asyncq._has_offers()")
    await add_at_once(own)

    assert [None] == await holders(own)


async def test_no_add_looks_for_offers_that_nobody_makes(own: Session, idle: Session) -> None:
    """There may be many dead versions to walk over."""
    await offering(idle, FIRST)
    await idle.execute("select pg_advisory_unlock_shared(asyncq._lock_space(), -2147483648)")
    await add_at_once(own)

    assert [None] == await holders(own)


@both_ways
async def test_no_add_waits_for_another_one(dsn: str, own: Session, idle: Session, *, packs: bool) -> None:
    """The first one holds the offer until it has committed."""
    await offering(idle, FIRST, packs=packs)
    async with session(dsn, own.schema) as first, first.connection.transaction():
        await add_at_once(first)
        async with asyncio.timeout(5):
            await add_at_once(own)

    assert [FIRST, None] == await holders(own)


@both_ways
async def test_an_add_that_rolls_back_leaves_the_offer_as_it_was(
    dsn: str, own: Session, idle: Session, *, packs: bool
) -> None:
    """The next one takes it."""
    await offering(idle, FIRST, packs=packs)
    async with session(dsn, own.schema) as first:
        transaction = first.connection.transaction()
        await transaction.start()
        await add_at_once(first)
        await transaction.rollback()
    await add_at_once(own)

    assert [FIRST] == await holders(own)


@both_ways
async def test_the_rescue_of_a_worker_passes_over_one_to_whom_a_job_is_being_handed(
    dsn: str, own: Session, idle: Session, *, packs: bool
) -> None:
    """It waits for nobody; the next rescue finds the job."""
    await offering(idle, FIRST, packs=packs)
    async with session(dsn, own.schema) as adder, adder.connection.transaction():
        await add_at_once(adder)
        await own.execute("update asyncq._workers set last_seen = '2000-01-01'")
        async with asyncio.timeout(5):
            early = await own.run("rescue_jobs", THOROUGH)
        kept = await own.values("select id from asyncq._workers")
    late = await own.run("rescue_jobs", not THOROUGH)

    assert ([], 1, 1, []) == (early, len(kept), len(late), await own.values("select id from asyncq._workers"))


@pytest.mark.parametrize("packs", [True, False], ids=["in a batch", "as a row"])
@pytest.mark.parametrize(
    "silence", ["last_seen = clock_timestamp() - lease * 0.7", "doubted_at = now()", "died_at = now()"]
)
async def test_an_add_passes_by_the_offer_of_a_worker_that_is_not_heard(
    own: Session, idle: Session, silence: str, *, packs: bool
) -> None:
    """The worker is frozen, cut off or dead: the job would wait for a rescue, while others have free slots."""
    await offering(idle, FIRST, packs=packs)
    await own.execute(f"update asyncq._workers set {silence}")
    filled = await own.run("fill_offer", "t", "{}", None, None)
    await add_at_once(own)

    assert ([], [None]) == (filled, await holders(own))


async def test_a_worker_that_is_being_rescued_is_offered_nothing(dsn: str, own: Session, idle: Session) -> None:
    """Its offer goes before its claims are looked for."""
    await offering(idle, FIRST)
    async with session(dsn, own.schema) as rescuer, rescuer.connection.transaction():
        await rescuer.execute("update asyncq._workers set last_seen = '2000-01-01'")
        await rescuer.run("rescue_jobs", not THOROUGH)
        async with asyncio.timeout(5):
            await add_at_once(own)

    assert [None] == await holders(own)
    assert [] == await own.rows("select from asyncq._batches")


async def test_an_empty_batch_of_nobody_is_removed_by_a_thorough_rescue(own: Session, idle: Session) -> None:
    """Somebody has deleted the worker's row by hand. No add takes it."""
    await offering(idle, FIRST)
    await own.execute("delete from asyncq._workers")
    await add_at_once(own)
    left = await own.value("select count(*) from asyncq._batches")
    await own.run("rescue_jobs", THOROUGH)

    assert (1, [None], []) == (left, await holders(own), await own.rows("select from asyncq._batches"))


async def test_a_task_that_is_not_stored_takes_no_offer(own: Session, idle: Session) -> None:
    """Nothing is added yet: the other way stores the name."""
    await offering(idle, FIRST)

    assert await add_at_once(own, "unknown") is None
    assert (FIRST, False) == tuple(await own.row(OFFER))


def test_what_is_no_job_is_told_apart() -> None:
    """Who may send on the channel may send anything."""
    assert [None] * 4 == [handed_over(text) for text in ("", "[]", '{"id": 1}', '["x",1,1,1,1,1,{},null]')]

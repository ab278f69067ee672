"""`fill_slot`, `fill_slot_awaited`: an add claims its job for a worker that waits for one, and sends the job along."""

import asyncio
import json
from typing import Any

import pytest

from asyncq.store.claim import read_claim
from asyncq.store.handoff import handed_over
from asyncq.store.statements import query
from tests.sql.test_plans import nodes
from tests.support import handoffs
from tests.support.handoffs import EXTRAS, FIRST, SLOT, add_plain, fill_awaited, holders, insert, open_slot
from tests.support.jobs import fetch, rest
from tests.support.session import Session, session
from tests.support.waiting import wait_until

PAYLOAD = '{"b" :1,\n "a":"ü\\u0041\\"", "big": 12345678901234567890.10}'
THOROUGH = True
TIME_STANDS = """
create or replace function asyncq.now() returns timestamptz language sql stable
as $$ select '2026-01-01'::timestamptz $$
"""
# As the client's own connections plan it, once for all parameters.
PLANS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}


@pytest.fixture(autouse=True, params=["fill_slot", "fill_slot_awaited"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The statement: that of a plain job, or of one that its client awaits."""
    if request.param == "fill_slot_awaited":
        monkeypatch.setattr(handoffs, "fill", fill_awaited)
    return request.param


async def fill(sql: Session, *job: Any, **options: Any) -> int | None:
    """Add a job by this statement; its id, or None if no worker waits."""
    return await handoffs.fill(sql, *job, **options)


async def test_the_notification_has_the_claim_that_a_fetch_would_return(own: Session, idle: Session) -> None:
    """The payload is not rewritten on its way, to the byte."""
    messages: list[str] = []
    channel = f"{own.schema}:handoff"  # which no other test uses at the same time
    await idle.connection.add_listener(channel, lambda *about: messages.append(about[3]))
    worker = await open_slot(idle, FIRST, channel=channel)
    job = await fill(own, payload=PAYLOAD)
    await wait_until(lambda: messages, description="the job")
    await own.rows("select from asyncq._split_batches_of_worker($1, $2)", worker, [FIRST])
    claim, made_at = handed_over(messages[0]) or (None, 0.0)
    held = await own.row("select locked_by, lock_token, locked_at = run_at, pg_typeof(id)::text from asyncq._jobs")
    await own.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    (row,) = await fetch(own, token=FIRST, worker=worker)

    assert (job, PAYLOAD, (worker, FIRST, True)) == (claim and claim.id, claim and claim.payload, tuple(held)[:3])
    assert read_claim(*row.values()) == claim
    assert 0 <= await own.value("select extract(epoch from clock_timestamp())::float8") - made_at < 60


@pytest.mark.parametrize("numbers", [(None, None), (3, -7)], ids=["defaults", "others"])
async def test_the_job_is_as_an_insert_would_have_made_it(
    own: Session, idle: Session, name: str, numbers: tuple[int | None, int | None]
) -> None:
    """A split of the batch restores that row, except for the id and the claim."""
    worker = await open_slot(idle, FIRST)
    await own.execute(TIME_STANDS)
    jobs = [await fill(own, "t", PAYLOAD, *numbers)]
    if name == "fill_slot":
        jobs.append(await insert(own, "t", PAYLOAD, *numbers))
    else:
        record = json.dumps({"max_attempts": numbers[0], "priority": numbers[1], "extras": json.loads(EXTRAS)})
        jobs += [row["id"] for row in await own.run("add_keyless_job", "t", PAYLOAD, None, None, record)]
    await own.rows("select from asyncq._split_batches_of_worker($1, $2)", worker, [FIRST])
    claim = "{id,locked_by,locked_at,lock_token}"
    rows = await own.values(f"select to_jsonb(job) - '{claim}'::text[] from asyncq._jobs as job order by id")

    assert jobs == await own.values("select id from asyncq._jobs order by id")
    assert rows[0] == rows[1]


async def test_the_end_of_an_awaited_job_is_left_to_the_statement_that_notifies(own: Session, idle: Session) -> None:
    """A worker that did not know of the client would end it without a notification."""
    worker = await open_slot(idle, FIRST)
    job = await fill_awaited(own)
    (row,) = await own.run("settle_completed", worker, f"{{{job}}}", f"{{{FIRST}}}", None, None)
    left = await holders(own)
    ends = [["completed"], *[[None]] * 5, [0.0], ["1"], [None]]
    settled = await own.run("settle_rest", worker, *rest([job], [FIRST], *ends))

    assert ("{}", [FIRST]) == (row["written"], left)
    assert [(job, "written")] == [tuple(each) for each in settled]
    assert ["1"] == await own.values("select result::text from asyncq._ended_jobs where id = $1", job)


@pytest.mark.parametrize(
    ("payload", "fits"), [("x" * 994, True), ("x" * 995, False), ("é" * 497, True), ("é" * 498, False)]
)
async def test_no_slot_is_filled_with_more_than_a_batch_has_room_for(
    own: Session, idle: Session, payload: str, *, fits: bool
) -> None:
    """It is written as a whole. Counted are bytes."""
    await open_slot(idle, FIRST)

    assert fits == bool(await fill(own, payload=json.dumps(payload, ensure_ascii=False)))


async def test_a_slot_is_filled_once(own: Session, idle: Session) -> None:
    """The second add does nothing, and its result shows that."""
    await open_slot(idle, FIRST)
    filled = [await fill(own) for _ in range(2)]

    assert filled == [*await own.values("select id from asyncq._all_jobs()"), None]


@pytest.mark.parametrize(
    "spoil",
    [
        "update asyncq._handoff_slots set batchable_ids = '{}'",
        "update asyncq._handoff_slots set batchable_ids = '{2}'",
        "update asyncq._tasks set retired_in = '1'",
        "delete from asyncq._batches",
        "update asyncq._batches set ids = '{1}'",
        "update asyncq._batches set lock_token = 12",
    ],
    ids=["the context is taken", "another task", "retired", "withdrawn", "taken", "opened again"],
)
async def test_no_other_slot_is_filled(own: Session, idle: Session, spoil: str) -> None:
    """The job does not fit the slot, or the slot is no longer open."""
    await open_slot(idle, FIRST)
    await own.execute(spoil)

    assert await fill(own) is None


async def test_the_slot_of_a_worker_that_does_not_listen_is_passed_over(own: Session, idle: Session) -> None:
    """Its process was just killed: nobody would receive the notification."""
    worker = await open_slot(idle, FIRST)
    await idle.value("select pg_advisory_unlock(asyncq._lock_space(), $1)", -1 - worker)

    assert await fill(own) is None


async def test_of_two_at_once_one_fills_it_and_none_waits(dsn: str, own: Session, idle: Session) -> None:
    """The first one holds the slot until it has committed, or leaves it as it was."""
    await open_slot(idle, FIRST)
    async with session(dsn, own.schema) as first:
        transaction = first.connection.transaction()
        await transaction.start()
        await fill(first)
        async with asyncio.timeout(5):
            beside = await fill(own)
        await transaction.rollback()
    before = await own.row(SLOT)
    after = await fill(own)

    assert (None, (FIRST, False)) == (beside, tuple(before))
    assert [after] == await own.values("select id from asyncq._all_jobs()")


async def test_the_rescue_of_a_worker_skips_one_to_which_a_job_is_being_handed(
    dsn: str, own: Session, idle: Session
) -> None:
    """It waits for nobody, and the next rescue finds the job."""
    await open_slot(idle, FIRST)
    async with session(dsn, own.schema) as adder, adder.connection.transaction():
        await fill(adder)
        await own.execute("update asyncq._workers set last_seen = '2000-01-01'")
        async with asyncio.timeout(5):
            early = await own.run("rescue_jobs", THOROUGH, None)
        kept = await own.values("select id from asyncq._workers")
    late = await own.run("rescue_jobs", not THOROUGH, None)

    assert ([], 1, 1, []) == (early, len(kept), len(late), await own.values("select id from asyncq._workers"))


@pytest.mark.parametrize(
    "silence", ["last_seen = clock_timestamp() - lease * 0.7", "doubted_at = now()", "died_at = now()"]
)
async def test_an_add_skips_the_slot_of_an_unresponsive_worker(own: Session, idle: Session, silence: str) -> None:
    """The worker is frozen, cut off or dead: the job would wait for a rescue, while others have free slots."""
    await open_slot(idle, FIRST)
    await own.execute(f"update asyncq._workers set {silence}")

    assert await fill(own) is None


async def test_a_worker_that_is_being_rescued_gets_nothing(dsn: str, own: Session, idle: Session) -> None:
    """Its slot is deleted before its claims are searched."""
    await open_slot(idle, FIRST)
    async with session(dsn, own.schema) as rescuer, rescuer.connection.transaction():
        await rescuer.execute("update asyncq._workers set last_seen = '2000-01-01'")
        await rescuer.run("rescue_jobs", not THOROUGH, None)
        async with asyncio.timeout(5):
            await add_plain(own)

    assert [None] == await holders(own)
    assert [] == await own.rows("select from asyncq._batches")


async def test_an_orphaned_empty_batch_is_removed_by_a_thorough_rescue(own: Session, idle: Session) -> None:
    """An administrator deleted the worker's row. No add takes the slot."""
    await open_slot(idle, FIRST)
    await own.execute("delete from asyncq._workers")
    await add_plain(own)
    left = await own.value("select count(*) from asyncq._batches")
    await own.run("rescue_jobs", THOROUGH, None)

    assert (1, [None], []) == (left, await holders(own), await own.rows("select from asyncq._batches"))


async def test_a_task_that_is_not_stored_takes_no_slot(own: Session, idle: Session) -> None:
    """Nothing is added yet: the function stores the name."""
    await open_slot(idle, FIRST)

    assert await add_plain(own, "unknown") is None
    assert (FIRST, False) == tuple(await own.row(SLOT))


def test_a_text_that_is_no_job_is_ignored() -> None:
    """A role that may send on the channel may send any text."""
    assert [None] * 4 == [handed_over(text) for text in ("", "[]", '{"id": 1}', '["x",1,1,1,1,1,{},null]')]


@pytest.mark.parametrize("off", [(), ("tidscan",), ("tidscan", "hashjoin")], ids=str)
async def test_one_of_several_slots_is_filled_however_the_planner_joins(
    dsn: str, own: Session, idle: Session, off: tuple[str, ...]
) -> None:
    """The planner assumes one batch. A join would evaluate the slot once for each, and add the job as often."""
    for token in (FIRST, FIRST + 1, FIRST + 2):
        await open_slot(idle, token)
        if token == FIRST:
            await own.execute("analyze asyncq._batches")
    settings = {f"enable_{name}": "off" for name in off}
    async with session(dsn, own.schema, enable_seqscan="on", **settings) as adder:
        jobs = [await fill(adder)]

    assert jobs == await own.values("select id from asyncq._all_jobs()")


async def test_slots_are_found_by_their_key_however_many_batches_there_are(dsn: str, own: Session, name: str) -> None:
    """This includes a plan that was made while there were no batches."""
    async with session(dsn, own.schema, **PLANS) as client:
        await client.execute(f"prepare it as {query(name, client.schema)}")
        more = "" if name == "fill_slot" else ", '{}'"
        answer = await client.connection.fetchval(f"explain (format json) execute it('t', '{{}}', null, null{more})")
    ((plan, *_),) = [json.loads(answer)]
    scans: dict[str, list[Any]] = {}
    for node in nodes(plan["Plan"]):
        if node.get("Relation Name") == "_batches" and "Scan" in node["Node Type"]:
            scans.setdefault(node["Node Type"], []).append(node.get("Index Cond") or node.get("TID Cond"))

    assert "CTE free" in [node.get("Subplan Name") for node in nodes(plan["Plan"])], "looked for once"
    assert {"Index Scan", "Tid Scan"} == set(scans)
    assert all("lock_token" in condition for condition in scans["Index Scan"])

"""Stored recurring items on running workers: changes are noticed at once, or later; each item fails alone."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, CronItem, StoreUnavailable, task
from asyncq.domain.events import (
    CronAdded,
    CronBackfilled,
    CronFailed,
    CronItemFailed,
    CronItemRefused,
    CronItemsChanged,
    CronItemShadowed,
    CronStarted,
    MaintenanceFailed,
    WorkerLost,
    WorkerStarted,
)
from asyncq.engine.cron import slot_adder, timetable
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.stage import MINUTE, START, Stage
from tests.support.waiting import wait_until

HOUR = timedelta(hours=1)


@task(max_attempts=3, queue="bell", flags=["loud"])
async def ring(times: int = 1) -> None:
    """Do nothing; the items run it."""


async def deaf(stage: Stage) -> None:
    """Replace the function that notifies workers of changed items."""
    await stage.db.execute(f"""
        create or replace function {stage.schema}._wake_cron() returns void language sql as $$ select $$""")


# Notifications


async def test_an_item_that_is_added_is_scheduled_at_once(stage: Stage, client: Client) -> None:
    """The workers are notified: nothing polls, and the next minute is its first slot."""
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        changed = await stage.seen.wait_for(CronItemsChanged)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(1)

    assert (("ring",), ()) == (changed.items, changed.gone)
    assert ["ring 12:01"] == found


async def test_a_stored_item_has_the_defaults_of_its_task(stage: Stage, client: Client) -> None:
    """Only the worker has to know the task's defaults."""
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *", payload={"times": 3}))
        await stage.seen.wait_for(CronItemsChanged)
        await stage.clock.move(MINUTE)
        added = await stage.seen.wait_for(CronAdded)
        job = await client.get_job(added.job_ids[0])

    assert ("bell", 3, ("loud",), 3) == (
        job.queue,
        job.max_attempts,
        job.flags,
        msgspec.json.decode(job.payload)["times"],
    )


async def test_a_worker_without_notifications_finds_an_item_within_a_poll(stage: Stage, client: Client) -> None:
    """It checks for changed items as often as for jobs."""
    async with stage.worker(tasks=[ring], listen=False, poll=0.02, forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.seen.wait_for(CronItemsChanged)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(1)

    assert ["ring 12:01"] == found


async def test_an_item_whose_notification_was_lost_is_found_with_the_next_minute_and_misses_none(
    stage: Stage, client: Client
) -> None:
    """Its slots count from when it was stored, not from when a worker noticed it."""
    await deaf(stage)
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(1)

    assert ["ring 12:01"] == found


async def test_a_change_holds_from_the_next_slot_on(stage: Stage, client: Client) -> None:
    """Slots of the old expression end, and the new one has no missed slots, even with a fill."""
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        await client.cron.change("ring", match="*/2 * * * *", fill=HOUR)
        await stage.seen.wait_for(CronItemsChanged, 2)
        for _ in range(3):
            await stage.clock.move(MINUTE)
        found = await stage.wait_for(3)

    assert ["ring 12:01", "ring 12:02", "ring 12:04"] == found


async def test_a_change_whose_notification_was_lost_holds_too(stage: Stage, client: Client) -> None:
    """The next query of the clock also reports that items have changed."""
    await deaf(stage)
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        await client.cron.change("ring", match="3 * * * *")
        await stage.clock.move(MINUTE)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)

    assert ["ring 12:01", "ring 12:03"] == found


async def test_an_item_that_was_removed_is_not_due_any_more(stage: Stage, client: Client) -> None:
    """Other items continue."""
    async with stage.worker("* * * * * own", tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        await stage.wait_for(2)
        await client.cron.remove("ring")
        gone = await stage.seen.wait_for(CronItemsChanged, 2)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(3)

    assert ((), ("ring",)) == (gone.items, gone.gone)
    assert ["own 12:01", "own 12:02", "ring 12:01"] == sorted(found)


async def test_an_item_that_is_removed_and_added_again_is_a_new_one(stage: Stage, client: Client) -> None:
    """The slots of the first one are not filled in."""
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        item = CronItem("ring", "* * * * *", fill=HOUR)
        await client.cron.add(item)
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        await client.cron.remove("ring")
        await stage.seen.wait_for(CronItemsChanged, 2)
        await stage.clock.move(10 * MINUTE)
        await client.cron.add(item)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)

    assert ["ring 12:01", "ring 12:12"] == found


async def test_of_several_workers_one_adds_each_slot_of_a_stored_item(stage: Stage, client: Client) -> None:
    """This includes the minute in which it is changed, and a worker that polls."""
    async with AsyncExitStack() as stack:
        for listen in (True, True, False):
            worker = stage.worker(
                tasks=[ring], listen=listen, poll=0.02 if not listen else 60, forbidden_flags=["loud"]
            )
            await stack.enter_async_context(worker.start())
        await client.cron.add(CronItem("ring", "* * * * *"))
        for minute in range(1, 9):
            await stage.clock.move(MINUTE)
            await stage.wait_for(minute)
            if minute % 3 == 0:
                await client.cron.change("ring", priority=minute)
        await stage.seen.wait_for(CronItemsChanged, 9)
        found = await stage.wait_for(8)

    assert [f"ring 12:{minute:02}" for minute in range(1, 9)] == found


# Pauses


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "static"])
async def test_slots_during_a_pause_are_never_filled_in(stage: Stage, client: Client, is_stored: bool) -> None:
    """Neither a resume nor a worker that starts afterwards fills them in, even with a fill."""
    line = "* * * * * ring ?fill=1d"
    own = [] if is_stored else [line]
    if is_stored:
        await client.cron.add(CronItem("ring", "* * * * *", fill=timedelta(days=1)))
    async with stage.worker(*own, "* * * * * other", tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(2)
        await client.cron.pause("ring")
        await stage.clock.move(MINUTE)
        await stage.wait_for(3)
    async with stage.worker(*own, "* * * * * other", tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(4)
        resumed = await client.cron.resume("ring")
        await stage.clock.move(MINUTE)
        await stage.wait_for(6)
    await stage.clock.move(MINUTE)
    async with stage.worker(*own, tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.seen.wait_for(CronBackfilled)

    expected = [("ring 12:01"), "ring 12:04", "ring 12:05"]
    assert expected == [job for job in await stage.jobs() if job.startswith("ring")]
    assert None is resumed.paused_at


# Failures


async def test_an_item_that_cannot_be_scheduled_fails_alone_with_its_reason(stage: Stage, client: Client) -> None:
    """SQL does not detect every fault. The worker reports it once, and the list shows it until it is fixed."""
    add = f"select from {stage.schema}.add_cron_item($1, 'ring', $2, $3)"
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.db.execute(add, "bad_time", "99 * * * *", "{}")
        await stage.db.execute(add, "bad_payload", "* * * * *", '{"times": "x"}')
        await stage.db.execute(add, "good", "* * * * *", "{}")
        await stage.seen.wait_for(CronItemsChanged)
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        bad_payload, bad_time, good = await client.cron.list_items()
        await client.cron.change("bad_time", match="9 * * * *")
        await stage.seen.wait_for(CronItemsChanged, 2)
        mended = await client.cron.get_item("bad_time")

    assert ("column 1: minute is 99, expected 0 to 59", None) == (bad_time.problem, bad_time.next_run)
    assert "payload of task 'ring': Expected `int`, got `str` - at `$.times`" == bad_payload.problem
    assert (None, True) == (good.problem, good.next_run is not None)
    assert None is mended.problem
    assert {"bad_time", "bad_payload"} == {event.item for event in stage.seen.of(CronItemRefused)}
    assert 2 == len(stage.seen.of(CronItemRefused))


async def test_an_item_of_an_unknown_task_is_added_by_no_worker(stage: Stage, client: Client) -> None:
    """Workers without the task lack its defaults. The list shows that no worker adds its jobs."""
    async with stage.worker("* * * * * own", tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("elsewhere", "* * * * *"))
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)
        elsewhere, own, rung = await client.cron.list_items()

    assert ["own 12:01", "ring 12:01"] == sorted(found)
    assert ((), 1, 1) == (elsewhere.workers, len(own.workers), len(rung.workers))
    assert (None, "stored", "static", "stored") == (elsewhere.problem, elsewhere.source, own.source, rung.source)


@pytest.mark.parametrize(
    "error", [StoreUnavailable("gone"), StoreUnavailable("late", outcome="unknown")], ids=["gone", "late"]
)
async def test_a_status_that_cannot_be_written_delays_no_slot(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Next runs and problems are only informative, so the jobs are added anyway."""

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(slot_adder.store, "tell", fail)
    async with stage.worker("* * * * * own", tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *"))
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)
        await stage.seen.wait_for(MaintenanceFailed, 2)

    assert ["own 12:01", "ring 12:01"] == sorted(found)
    assert [] == stage.seen.of(CronFailed)


# Races


async def is_anybody_blocked(stage: Stage) -> bool:
    """Whether a connection of the schema waits for a lock."""
    found: bool = await stage.db.fetchval(
        "select exists (select from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock')",
        f"{stage.schema} cron",
    )
    return found


async def test_a_change_between_the_check_and_the_claim_adds_the_slot_of_the_new_definition(
    stage: Stage, client: Client, dsn: str
) -> None:
    """The worker read the old definition and waits for the change with its slot, which is then not added.

    The new definition is due since the change, and its slot is added once.
    """
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(CronItem("ring", "* * * * *", payload={"times": 1}))
        await stage.seen.wait_for(CronItemsChanged)
        changer = await asyncpg.connect(dsn)
        try:
            async with changer.transaction():
                await client.cron.change("ring", payload={"times": 2}, connection=changer)
                await stage.clock.move(MINUTE)
                await wait_until(lambda: is_anybody_blocked(stage), description="the worker to wait for the change")
        finally:
            await changer.close()
        await stage.seen.wait_for(CronItemsChanged, 2)
        found = await stage.wait_for(1)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)
    payloads = await stage.db.fetch(f"select payload::text from {stage.schema}._all_jobs() order by id")

    assert ["ring 12:01", "ring 12:02"] == found
    assert [2, 2] == [msgspec.json.decode(row["payload"])["times"] for row in payloads]


async def test_an_item_that_is_paused_in_an_open_transaction_does_not_delay_the_others(
    stage: Stage, client: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails alone. Its slot is added when that transaction was rolled back."""
    monkeypatch.setattr(slot_adder, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(timetable, "SLOWEST_RETRY_S", 0.05)
    async with stage.worker("* * * * * held", "* * * * * free").start():
        keeper = await asyncpg.connect(dsn)
        transaction = keeper.transaction()
        await transaction.start()
        await client.cron.pause("held", connection=keeper)
        await stage.clock.move(MINUTE)
        failed = await stage.seen.wait_for(CronItemFailed)
        added = await stage.seen.wait_for(CronAdded)
        await transaction.rollback()
        await keeper.close()
        found = await stage.wait_for(2)

    assert ("held", True, ("free",)) == (failed.item, failed.error.endswith("[55P03]"), added.items)
    assert ["free 12:01", "held 12:01"] == found


async def test_an_item_that_is_being_stored_while_a_worker_starts_with_its_name_waits(
    stage: Stage, client: Client, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The add has not seen the worker, nor the worker the add: the worker's own item is the one that runs."""
    monkeypatch.setattr(slot_adder, "LOCK_TIMEOUT_S", 0.05)
    keeper = await asyncpg.connect(dsn)
    transaction = keeper.transaction()
    await transaction.start()
    await client.cron.add(CronItem("ring", "* * * * *", identifier="bell", payload={"times": 7}), connection=keeper)
    async with stage.worker("* * * * * ring ?id=bell", tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.seen.wait_for(CronFailed)
        await transaction.commit()
        await keeper.close()
        shadowed = await stage.seen.wait_for(CronItemShadowed)
        await stage.seen.wait_for(CronStarted)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(1)
    payload = await stage.db.fetchval(f"select payload::text from {stage.schema}._all_jobs()")

    assert ("bell", ["ring 12:01"]) == (shadowed.item, found)
    assert "times" not in payload


async def test_a_worker_that_was_declared_dead_declares_its_items_under_its_new_id(
    stage: Stage, client: Client
) -> None:
    """Otherwise a stored item of the same name could be added while the worker lives."""
    async with stage.worker("* * * * * ring ?id=bell", tasks=[ring], lease=1.0).start():
        before = await client.cron.get_item("bell")
        await stage.db.execute(f"delete from {stage.schema}._workers")
        await stage.seen.wait_for(WorkerLost)

        async def is_there() -> bool:
            return (await client.cron.get_item("bell")).workers not in ((), before.workers)

        await wait_until(is_there, description="the items to be declared again")
        after = await client.cron.get_item("bell")

    assert (1, 1, "ring") == (len(before.workers), len(after.workers), after.task)


# Beside items of a worker's own


async def test_an_item_of_a_workers_own_crontab_overrides_a_stored_one(stage: Stage, client: Client) -> None:
    """The crontab of a live worker is explicit, so no worker runs the stored item meanwhile."""
    await client.cron.add(CronItem("ring", "* * * * *", identifier="bell", payload={"times": 7}))
    async with stage.worker("* * * * * own", tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(2)
        async with stage.worker("2 * * * * ring ?id=bell", tasks=[ring], forbidden_flags=["loud"]).start():
            shadowed = await stage.seen.wait_for(CronItemShadowed)
            status = await client.cron.get_item("bell")
            await stage.clock.move(MINUTE)
            await stage.wait_for(4)
            await stage.clock.move(MINUTE)
            await stage.wait_for(5)
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(7)
    payloads = await stage.db.fetch(f"""
        select payload::text from {stage.schema}._all_jobs() as job join {stage.schema}.jobs using (id)
        where task_identifier = 'ring' order by id""")

    assert ("bell", "static", "2 * * * *") == (shadowed.item, status.source, status.expression)
    assert "a worker has an item of this identifier in its crontab: the stored one waits" == status.problem
    assert ["ring 12:01", "ring 12:02", "ring 12:04"] == [job for job in found if job.startswith("ring")]
    assert ["times" in row["payload"] for row in payloads] == [True, False, True]


# The stored status


async def test_the_last_and_the_next_run_of_an_item_are_visible_in_sql(stage: Stage, client: Client) -> None:
    """Workers write them, since SQL cannot parse an expression."""
    await client.cron.add(CronItem("ring", "*/5 * * * *"))
    select = f"select last_run, next_run from {stage.schema}.list_cron_items()"
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():

        async def is_stored_by_worker() -> bool:
            return START.replace(minute=5, second=0) == (await stage.db.fetchrow(select))["next_run"]

        await wait_until(is_stored_by_worker, description="the next run to be stored")
        await stage.clock.move(5 * MINUTE)
        await stage.wait_for(1)

        async def is_stored_again() -> bool:
            return START.replace(minute=10, second=0) == (await stage.db.fetchrow(select))["next_run"]

        await wait_until(is_stored_again, description="the next run to be stored again")
        row = await stage.db.fetchrow(select)

    assert datetime(2024, 5, 1, 12, 5, tzinfo=UTC) == row["last_run"]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "static"])
async def test_the_next_run_of_a_resumed_item_is_visible_in_sql(stage: Stage, client: Client, is_stored: bool) -> None:
    """It is written at once, since the next run of before the pause is past."""
    if is_stored:
        await client.cron.add(CronItem("ring", "*/5 * * * *"))
    select = f"select next_run from {stage.schema}.list_cron_items()"
    own = [] if is_stored else ["*/5 * * * * ring"]
    async with stage.worker(*own, tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.pause("ring")
        await stage.clock.move(timedelta(minutes=7))
        await client.cron.resume("ring")

        async def is_stored_by_worker() -> bool:
            return START.replace(minute=10, second=0) == await stage.db.fetchval(select)

        await wait_until(is_stored_by_worker, description="the next run to be stored")


async def test_an_item_that_was_added_in_sql_is_run_with_the_defaults_of_its_task(stage: Stage, client: Client) -> None:
    """A worker that read the item has stored them."""
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.db.execute(f"select from {stage.schema}.add_cron_item('bell', 'ring', '@daily')")
        await stage.seen.wait_for(CronItemsChanged)

        async def is_stored_by_worker() -> Any:
            return await stage.db.fetchval(f"select job is not null from {stage.schema}._cron_items")

        await wait_until(is_stored_by_worker, description="the job to be stored")
        job = await client.get_job((await client.cron.run("bell")).id)

    assert ("bell", 3, ("loud",)) == (job.queue, job.max_attempts, job.flags)


async def test_the_status_of_an_item_that_is_removed_and_stored_again_at_once_is_written_again(
    stage: Stage, client: Client
) -> None:
    """A deployment may do so: the definition is the same, but the status was deleted with the first item."""
    item = CronItem("ring", "@daily", identifier="bell")
    told = f"select job is not null and next_run is not null from {stage.schema}._cron_items natural join "

    async def is_stored_by_worker() -> Any:
        return await stage.db.fetchval(f"{told} {stage.schema}.known_crontabs")

    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(item)
        await wait_until(is_stored_by_worker, description="the status to be stored")
        async with stage.db.transaction():
            await client.cron.remove("bell", connection=stage.db)
            await client.cron.add(item, connection=stage.db)
        await wait_until(is_stored_by_worker, description="the status to be stored again")

    assert 1 == len(stage.seen.of(CronItemsChanged))


async def test_the_status_of_an_item_that_is_stored_again_in_a_slow_transaction_is_written_again(
    stage: Stage, client: Client, dsn: str
) -> None:
    """Another item was replaced in the meantime, and committed first."""
    told = f"select next_run is not null from {stage.schema}.known_crontabs where identifier = $1"
    bell, door = (CronItem("ring", "@daily", identifier=name) for name in ("bell", "door"))

    async def is_stored_by_worker(name: str) -> Any:
        return await stage.db.fetchval(told, name)

    slow = await asyncpg.connect(dsn)
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await client.cron.add(bell)
        await client.cron.add(door)
        await wait_until(lambda: is_stored_by_worker("door"), description="the statuses to be stored")
        async with slow.transaction():
            await client.cron.remove("bell", connection=slow)
            await client.cron.add(bell, connection=slow)
            await client.cron.pause("door")
            await client.cron.resume("door")
            await wait_until(lambda: is_stored_by_worker("door"), description="the other status to be stored again")
        await wait_until(lambda: is_stored_by_worker("bell"), description="the status to be stored again")
        job = await client.get_job((await client.cron.run("bell")).id)
    await slow.close()

    assert ("bell", 3) == (job.queue, job.max_attempts)


async def test_an_item_of_a_workers_own_crontab_is_run_as_declared(stage: Stage, client: Client) -> None:
    """A manual run has its payload and the defaults of its task."""
    async with stage.worker("0 0 * * * ring ?id=bell {times: 9}", tasks=[ring]).start():
        await stage.seen.wait_for(CronStarted)
        job = await client.get_job((await client.cron.run("bell")).id)

    assert ("bell", 3, 9) == (job.queue, job.max_attempts, msgspec.json.decode(job.payload)["times"])


async def test_a_stored_item_is_filled_in_by_a_worker_that_starts(stage: Stage, client: Client) -> None:
    """Its missed slots count from when it was stored, as for items of a crontab."""
    await client.cron.add(CronItem("ring", "* * * * *", fill=HOUR))
    await stage.clock.move(3 * MINUTE)
    async with stage.worker(tasks=[ring], forbidden_flags=["loud"]).start():
        await stage.seen.wait_for(CronBackfilled)

    assert ["ring 12:01", "ring 12:02", "ring 12:03"] == await stage.jobs(backfilled=True)


async def test_a_worker_without_items_opens_no_connection_for_them(
    make_worker: MakeWorker, seen: Seen, landlord: Any, schema: str
) -> None:
    """It checks once a minute on a connection that is open anyway."""
    async with make_worker(ring).start():
        await seen.wait_for(WorkerStarted)
        roles = await landlord.connections(schema)

    assert [] == [role for role in roles if "cron" in role]

"""Recurring jobs on a worker: each slot becomes a job, even if the clock, the database or other items fail."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Client, CronItem, JobContext, StoreUnavailable, TimeDigest, task
from asyncq.domain.events import (
    CronAdded,
    CronBackfilled,
    CronClockJumped,
    CronFailed,
    CronItemFailed,
    CronStarted,
    JobCompleted,
    UnknownCronTasks,
    WorkerStarted,
)
from asyncq.engine.cron import scheduler, slot_adder, timetable
from tests.engine.conftest import MakeWorker
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.stage import MINUTE, START, Stage
from tests.support.waiting import wait_until

HOUR = timedelta(hours=1)


@task
async def ring() -> None:
    """Do nothing; the items run it."""


# Minute by minute


async def test_each_slot_becomes_a_job_at_its_time(stage: Stage) -> None:
    """The job is due at the slot; an item that is not due adds nothing."""
    async with stage.worker("* * * * * often\n2 12 * * * once\n0 0 * * * never").start():
        assert [] == await stage.jobs()
        await stage.clock.move(MINUTE)
        first = await stage.wait_for(1)
        await stage.clock.move(MINUTE)
        second = await stage.wait_for(3)

    assert (["often 12:01"], ["often 12:01", "often 12:02", "once 12:02"]) == (first, second)
    assert [("often", "once", "never")] == [event.items for event in stage.seen.of(CronStarted)]
    assert [("often",), ("often", "once")] == [event.items for event in stage.seen.of(CronAdded)]


async def test_the_jobs_run_on_the_worker_that_adds_them(stage: Stage) -> None:
    """The add notifies it, since nothing polls for a minute. The task's own item is enough."""
    rung: list[str] = []

    @task(cron="* * * * * {who: 'cook'}")
    async def call(who: str, ctx: JobContext) -> None:
        rung.append(f"{who} {msgspec.json.decode(ctx.job.payload)['_cron']['ts']}")

    async with stage.worker(tasks=[call]).start():
        await stage.clock.move(MINUTE)
        await stage.seen.wait_for(JobCompleted)

    assert ["cook 2024-05-01T12:01:00.000Z"] == rung


async def test_a_worker_that_starts_in_the_very_minute_of_a_slot_does_not_fire_it_late(stage: Stage) -> None:
    """At 12:00:30 the slot of 12:00 is past, since no worker was running."""
    async with stage.worker("0 12 * * * noon\n1 12 * * * later").start():
        await stage.clock.move(MINUTE)

        assert ["later 12:01"] == await stage.wait_for(1)


async def test_without_items_there_is_no_cron(make_worker: MakeWorker, seen: Seen) -> None:
    """There is no event for it, and no connection."""
    async with make_worker(ring).start():
        pass

    assert ([], [4]) == (seen.of(CronStarted), [event.connections for event in seen.of(WorkerStarted)])


async def test_a_worker_that_runs_once_adds_nothing(stage: Stage) -> None:
    """It ends when nothing is runnable; a crontab has no end."""
    await stage.worker("* * * * * often").run_once()

    assert ([], []) == (stage.seen.of(CronStarted), await stage.jobs())


async def test_a_task_that_the_worker_does_not_know_is_reported_and_its_jobs_are_added(stage: Stage) -> None:
    """Another worker may know it. The log shows a typo."""
    async with stage.worker("* * * * * ring\n* * * * * rign", tasks=[ring]).start():
        await stage.clock.move(MINUTE)
        await stage.seen.wait_for(JobCompleted)

        assert ["rign 12:01"] == await stage.wait_for(1)
    assert [("rign",)] == [event.names for event in stage.seen.of(UnknownCronTasks)]


async def test_between_the_slots_no_further_connection_is_open(stage: Stage) -> None:
    """An idle worker holds three; the fourth is for adding, and counted in the start line."""

    async def held() -> Counter[str]:
        names = await stage.db.fetch(
            "select application_name as name from pg_stat_activity where application_name ^@ $1", f"{stage.schema} "
        )
        return Counter(row["name"].removeprefix(f"{stage.schema} ") for row in names)

    async def three_are_open() -> bool:
        return Counter({"fetch": 1, "listen": 1, "heartbeat": 1}) == await held()

    async with stage.worker("* * * * * often").start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        await wait_until(three_are_open, description="the connection of cron to be closed")

    assert [5] == [event.connections for event in stage.seen.of(WorkerStarted)]


# Late, early, and backwards


async def test_a_worker_that_slept_adds_each_minute_in_order(stage: Stage) -> None:
    """The laptop was closed for five minutes. The slots are not marked as backfilled, since the worker was running."""
    async with stage.worker("* * * * * often\n*/2 * * * * rare").start():
        await stage.clock.move(5 * MINUTE)
        found = await stage.wait_for(7)

    expected = ["often 12:01", "often 12:02", "rare 12:02", "often 12:03", "often 12:04", "rare 12:04", "often 12:05"]
    assert (expected, expected) == (found, await stage.jobs(backfilled=False))
    assert [270] == [round(event.by_s, -1) // 1 for event in stage.seen.of(CronClockJumped)]


async def test_a_clock_that_jumps_by_a_day_adds_the_last_hour_and_with_a_fill_all_missed_slots(stage: Stage) -> None:
    """A job for each minute of a night would be a flood. Only items with a fill get them, marked as backfilled."""
    async with stage.worker("*/20 * * * * often", "*/20 * * * * kept ?fill=3h").start():
        await stage.clock.move(timedelta(days=1))
        await stage.wait_for(12)

    assert ["often 11:40", "kept 11:40", "often 12:00", "kept 12:00"] == (await stage.jobs(backfilled=False))[-4:]
    assert ["kept 09:20", "kept 09:40", "kept 10:00", "kept 10:20", "kept 10:40", "kept 11:00"] == await stage.jobs(
        backfilled=True
    )


async def test_an_early_check_adds_nothing_and_the_slot_comes_at_its_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer may end before the minute does, several times."""
    looks = asyncio.Semaphore(0)

    def at_once(now: datetime) -> float:
        looks.release()
        return 0.0

    monkeypatch.setattr(scheduler, "until_next_minute_s", at_once)
    async with stage.worker("* * * * * often").start():
        for _ in range(10):
            await looks.acquire()
        early = await stage.jobs()
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        for _ in range(looks._value + 10):
            await looks.acquire()

    assert ([], ["often 12:01"]) == (early, await stage.jobs())


@pytest.mark.parametrize(("second", "expected"), [(0, 60.001), (30.25, 29.751), (59.999, 0.002)])
def test_the_next_check_is_just_after_the_full_minute(second: float, expected: float) -> None:
    """A late check is better than an early one, which has to be repeated."""
    now = START.replace(second=0) + timedelta(seconds=second)

    assert expected == pytest.approx(scheduler.until_next_minute_s(now))


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [(30, 60.001, None), (30, 119.9, None), (30, 120.5, 60.5), (30, 29.5, None), (30, -90, -120)],
    ids=["in-time", "within-a-minute", "a-minute-late", "put-right", "back"],
)
def test_a_check_is_late_if_it_missed_a_whole_minute(last: float, now: float, expected: float | None) -> None:
    """Shorter delays are normal: a busy machine, a clock that is corrected."""
    start = START.replace(second=0)

    by = scheduler.jump(start + timedelta(seconds=last), start + timedelta(seconds=now))
    assert expected == (by and by.total_seconds())


async def test_a_clock_that_goes_back_repeats_no_slot_and_adds_the_skipped_ones(stage: Stage) -> None:
    """The database remembers the slots that became jobs.

    Skipped slots that are due again do not wait for the old future.
    """
    async with stage.worker("30 13 * * * fired\n5 12 * * * skipped\n1 14 * * * mark").start():
        await stage.clock.move(2 * HOUR)
        await stage.wait_for(1)
        await stage.clock.set(START)
        await stage.seen.wait_for(CronClockJumped, 2)
        await stage.clock.move(5 * MINUTE)
        await stage.wait_for(2)
        await stage.clock.set(START + 2 * HOUR + MINUTE)
        found = await stage.wait_for(3)

    assert ["fired 13:30", "skipped 12:05", "mark 14:01"] == found
    assert -2 == round(stage.seen.of(CronClockJumped)[1].by_s / 3600, 1)


# Restarts


async def test_a_restart_adds_missed_slots_once(stage: Stage) -> None:
    """Slots since the last job are added in order and marked, as far back as the fill."""
    items = ("*/10 * * * * kept ?fill=35m", "*/10 * * * * left")
    async with stage.worker(*items).start():
        pass
    await stage.clock.move(HOUR)
    for _ in range(2):
        async with stage.worker(*items).start():
            await stage.seen.wait_for(CronBackfilled)
            await stage.clock.move(timedelta(seconds=1))

    assert ["kept 12:30", "kept 12:40", "kept 12:50", "kept 13:00"] == await stage.jobs()
    assert await stage.jobs() == await stage.jobs(backfilled=True)
    assert [("kept",)] == [event.items for event in stage.seen.of(CronBackfilled)]


async def test_a_new_item_has_no_missed_slots(stage: Stage) -> None:
    """It did not exist before, however long its fill is. An item with a new identifier has none either."""
    async with stage.worker("* * * * * old ?fill=1d").start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
    await stage.clock.move(HOUR)
    async with stage.worker("* * * * * old ?fill=1d&id=renamed", "* * * * * new ?fill=1d").start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(3)

    assert ["old 12:01", "old 13:02", "new 13:02"] == await stage.jobs()


async def test_a_long_backfill_is_added_in_chunks_and_can_be_continued(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is lost in the middle: slots that were added are not repeated, and the rest follows in order."""
    items = ("* * * * * first ?fill=2d", "* * * * * second ?fill=2d")
    async with stage.worker(*items).start():
        pass
    await stage.clock.move(timedelta(days=2))
    sizes: list[int] = []
    real = slot_adder.store.add_slots

    async def break_once(line: Any, slots: Any, envelopes: Any) -> Any:
        sizes.append(len(slots))
        done = await real(line, slots, envelopes)
        if len(sizes) == 2:
            raise StoreUnavailable("the connection was lost")
        return done

    monkeypatch.setattr(slot_adder.store, "add_slots", break_once)
    async with stage.worker(*items).start():
        await stage.seen.wait_for(CronStarted, 3)
        found = await stage.wait_for(2 * 48 * 60)

    expected = [START.replace(second=0) + number * MINUTE for number in range(1, 48 * 60 + 1)]
    assert [f"{name} {at:%H:%M}" for at in expected for name in ("first", "second")] == found
    assert (1000, 1) == (max(sizes), len(stage.seen.of(CronFailed)))


async def test_while_the_database_is_away_the_slots_wait(
    dsn: str, schema: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again with back-off; when it is back the minutes of the outage follow, without a fill too."""
    monkeypatch.setattr(scheduler, "FIRST_RETRY_S", 0.01)
    async with link_to(dsn) as link, stage.worker("* * * * * often", dsn=link.dsn).start():
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)
        link.refuse("cron")
        await stage.clock.move(MINUTE)
        await stage.seen.wait_for(CronFailed, 3)
        await stage.clock.move(MINUTE)
        link.mend()
        found = await stage.wait_for(3)

    assert ["often 12:01", "often 12:02", "often 12:03"] == found == await stage.jobs(backfilled=False)
    assert 2 == len(stage.seen.of(CronStarted))


async def test_a_worker_starts_although_its_items_cannot_be_registered_yet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other jobs need no crontab. The failure is reported, and the registration is retried."""
    monkeypatch.setattr(scheduler, "FIRST_RETRY_S", 0.01)
    real, failures = slot_adder.store.register, [StoreUnavailable("away"), StoreUnavailable("late", outcome="unknown")]

    async def fail_twice(*args: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return await real(*args)

    monkeypatch.setattr(slot_adder.store, "register", fail_twice)
    async with stage.worker("* * * * * often", tasks=[ring]).start():
        await stage.seen.wait_for(CronStarted)
        await stage.clock.move(MINUTE)
        await stage.wait_for(1)

    assert ["away", "late"] == [event.error for event in stage.seen.of(CronFailed)]


async def test_a_stopping_worker_waits_for_slots_that_were_sent(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the slot would be lost: there is no other worker, and no fill."""
    sent = asyncio.Event()
    real = slot_adder.store.add_slots

    async def tell(*args: Any) -> Any:
        sent.set()
        await asyncio.sleep(0.05)
        return await real(*args)

    monkeypatch.setattr(slot_adder.store, "add_slots", tell)
    async with stage.worker("1 12 * * * once").start():
        await stage.clock.move(MINUTE)
        await sent.wait()

    assert ["once 12:01"] == await stage.jobs()


# Items that fail


async def test_a_function_that_raises_does_not_delay_other_items(stage: Stage) -> None:
    """Even SystemExit does not delay the others. The item's own slots follow when the function works again."""
    broken = [ValueError("no such day"), SystemExit(3)]

    def fickle(minute: TimeDigest) -> bool:
        if minute.minute == 1 and broken:
            raise broken.pop(0)
        return True

    async with stage.worker(CronItem("fickle", fickle), "* * * * * good").start():
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)

    assert ["good 12:01", "fickle 12:01"] == found
    assert [("fickle", "ValueError: no such day"), ("fickle", "SystemExit: 3")] == [
        (event.item, event.error) for event in stage.seen.of(CronItemFailed)
    ]


async def refuse(db: asyncpg.Connection, schema: str, condition: str, code: str) -> None:
    """Let the database refuse jobs."""
    await db.execute(f"""
        create or replace function {schema}.refuse() returns trigger language plpgsql as $$
        begin
          if {condition} then raise exception 'no luck' using errcode = '{code}'; end if;
          return new;
        end $$;
        create or replace trigger refuse before insert on {schema}._jobs
        for each row execute function {schema}.refuse()""")


async def test_a_job_that_the_database_refuses_does_not_delay_other_items(stage: Stage) -> None:
    """A trigger or a full disk may refuse it. The item is reported and retried, and its slots follow in order."""
    await refuse(stage.db, stage.schema, "new.priority = 13", "XX013")
    async with stage.worker("* * * * * bad ?priority=13", "* * * * * good").start():
        await stage.clock.move(MINUTE)
        await stage.seen.wait_for(CronItemFailed)
        await stage.clock.move(MINUTE)
        while_refused = await stage.wait_for(2)
        await refuse(stage.db, stage.schema, "false", "XX013")
        found = await stage.wait_for(4)

    assert ["good 12:01", "good 12:02"] == while_refused
    assert [*while_refused, "bad 12:01", "bad 12:02"] == found
    assert {("bad", "no luck [XX013]")} == {(event.item, event.error) for event in stage.seen.of(CronItemFailed)}


async def test_no_later_slot_of_an_item_is_added_before_one_that_was_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last slot is remembered, so the refused one of an earlier transaction would be lost."""
    monkeypatch.setattr(slot_adder, "CHUNK", 1)
    await stage.db.execute(f"create sequence {stage.schema}.tries")
    await refuse(stage.db, stage.schema, f"nextval('{stage.schema}.tries') <= 2", "XX013")
    async with stage.worker("* * * * * unlucky").start():
        await stage.clock.move(2 * MINUTE)

        assert ["unlucky 12:01", "unlucky 12:02"] == await stage.wait_for(2)


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_an_item_that_lost_a_race_in_the_database_is_tried_again_at_once(stage: Stage, code: str) -> None:
    """A deadlock or a serialization failure is over a moment later: no need to wait for the next minute."""
    await stage.db.execute(f"create sequence {stage.schema}.tries")
    await refuse(
        stage.db, stage.schema, f"new.priority = 13 and nextval('{stage.schema}.tries') <= 2", code
    )  # once with the others, once alone
    async with stage.worker("* * * * * unlucky ?priority=13", "* * * * * good").start():
        await stage.clock.move(MINUTE)
        found = await stage.wait_for(2)

    assert ["good 12:01", "unlucky 12:01"] == found
    assert [f"no luck [{code}]"] == [event.error for event in stage.seen.of(CronItemFailed)]


async def test_an_item_whose_key_is_locked_does_not_delay_the_others(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long transaction may hold the key by a job that it added: adds under the key wait for its end."""
    monkeypatch.setattr(slot_adder, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(timetable, "SLOWEST_RETRY_S", 0.05)
    async with stage.worker("* * * * * keyed ?jobKey=k", "* * * * * good").start():
        async with stage.db.transaction():
            await client.add_job("other", job_key="k", connection=stage.db)
            await stage.clock.move(MINUTE)
            event = await stage.seen.wait_for(CronItemFailed)
            added = await stage.seen.wait_for(CronAdded)
        await stage.seen.wait_for(CronAdded, 2)

    assert (("good",), "keyed") == (added.items, event.item)
    assert event.error.endswith("[55P03]")
    assert ["keyed 12:01", "good 12:01"] == await stage.jobs()


async def test_an_item_that_fails_for_long_gets_only_the_slots_of_the_last_hour(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its jobs would be added as a flood when it works again."""
    monkeypatch.setattr(timetable, "SLOWEST_RETRY_S", 0.01)
    works = asyncio.Event()

    def fickle(minute: TimeDigest) -> bool:
        if not works.is_set():
            raise ValueError
        return minute.minute % 20 == 0

    async with stage.worker(CronItem("fickle", fickle)).start():
        await stage.clock.move(90 * MINUTE)
        await stage.seen.wait_for(CronItemFailed, 3)
        works.set()
        found = await stage.wait_for(3)

    assert ["fickle 12:40", "fickle 13:00", "fickle 13:20"] == found

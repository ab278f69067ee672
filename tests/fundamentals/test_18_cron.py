"""Recurring jobs: slots become jobs, missed ones are made up for, and items are changed while workers run."""

from datetime import UTC, datetime, timedelta

from asyncq import Client, CronItem, InvalidCrontab, next_run, task
from asyncq.testing import MovableClock, make_worker
from tests.support.waiting import wait_until

MORNING = datetime(2026, 7, 1, 7, 59, 30, tzinfo=UTC)


class Alarm:
    """Counts how often it rang; a worker that has it can be given any crontab."""

    def __init__(self) -> None:
        self.rung: list[str] = []

        @task
        async def ring(who: str = "all") -> None:
            self.rung.append(who)

        self.task = ring

    async def has_rung(self, *names: str) -> None:
        """Wait until it rang for these."""
        await wait_until(lambda: self.rung == [*names], description=f"{names} to be rung for, not {self.rung}")


async def test_a_slot_becomes_a_job_at_its_time(dsn: str, schema: str) -> None:
    """A line says when, which task, and with what; the worker adds the job and runs it."""
    alarm = Alarm()
    async with MovableClock(dsn, schema) as clock:
        await clock.set(MORNING)
        async with make_worker(dsn, [alarm.task], schema=schema, crontab="0 8 * * * ring {who: 'cook'}").start():
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("cook")


async def test_a_slot_is_one_job_for_any_number_of_workers(dsn: str, schema: str) -> None:
    """All workers have the crontab, and none is the leader."""
    alarm = Alarm()
    async with MovableClock(dsn, schema) as clock:
        await clock.set(MORNING)
        first, second = (make_worker(dsn, [alarm.task], schema=schema, crontab="* * * * * ring") for _ in range(2))
        async with first.start(), second.start():
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("all")
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("all", "all")


async def test_missed_slots_are_added_as_far_back_as_the_fill(dsn: str, schema: str) -> None:
    """Two slots passed while no worker ran. A new item has missed none."""
    alarm = Alarm()
    crontab = "0 * * * * ring ?id=new {who: 'new'}\n0 * * * * ring ?id=known&fill=1d {who: 'known'}"
    async with MovableClock(dsn, schema) as clock:
        await clock.set(MORNING)
        async with make_worker(dsn, [alarm.task], schema=schema, crontab=crontab.splitlines()[1]).start():
            pass
        await clock.move(timedelta(hours=2))
        async with make_worker(dsn, [alarm.task], schema=schema, crontab=crontab).start():
            await alarm.has_rung("known", "known")


async def test_an_item_is_stored_while_workers_run(dsn: str, schema: str, client: Client) -> None:
    """Workers are notified of it and of each change."""
    alarm = Alarm()
    async with MovableClock(dsn, schema) as clock:
        await clock.set(MORNING)
        async with make_worker(dsn, [alarm.task], schema=schema).start():
            added = await client.cron.add(CronItem("ring", "* * * * *", payload={"who": "cook"}))
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("cook")
            await client.cron.change("ring", payload={"who": "guest"})
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("cook", "guest")
            await client.cron.remove("ring")

    assert ("stored", datetime(2026, 7, 1, 8, tzinfo=UTC)) == (added.source, added.next_run)


async def test_slots_during_a_pause_are_left_out(dsn: str, schema: str, client: Client) -> None:
    """An item of a crontab can be paused too. The pause is stored, so it outlasts restarts."""
    alarm = Alarm()
    worker = [make_worker(dsn, [alarm.task], schema=schema, crontab="* * * * * ring ?fill=1d") for _ in range(2)]
    async with MovableClock(dsn, schema) as clock:
        await clock.set(MORNING)
        async with worker[0].start():
            await client.cron.pause("ring")
        await clock.move(timedelta(minutes=5))
        async with worker[1].start():
            paused = await client.cron.get_item("ring")
            await client.cron.resume("ring")
            await clock.move(timedelta(minutes=1))
            await alarm.has_rung("all")

    assert ("static", True, None) == (paused.source, paused.paused_at is not None, paused.next_run)


async def test_an_item_is_run_now(client: Client) -> None:
    """A manual run counts as due. With `skip` it does not run beside a waiting or running job of the item."""
    await client.cron.add(CronItem("ring", "@daily", overlap="skip"))

    first, second = await client.cron.run("ring"), await client.cron.run("ring")

    assert ("added", "deduplicated", first.id) == (first.outcome, second.outcome, second.id)


def test_an_item_is_checked_when_it_is_made() -> None:
    """The error has all problems. `next_run` shows when an item is due next."""
    said = ""
    try:
        CronItem("ring", "61 * * * *", tz="Mars")
    except InvalidCrontab as error:
        said = str(error)
    at = next_run(CronItem("ring", "0 8 * * mon", tz="Europe/Berlin"), MORNING)

    assert "minute is 61, expected 0 to 59" in said
    assert "'Mars' is not a time zone" in said
    assert datetime(2026, 7, 6, 6, tzinfo=UTC) == at

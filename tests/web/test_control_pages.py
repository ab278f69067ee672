"""Pauses, limits, recurring items and workers on their pages, in a real browser."""

import asyncpg
from playwright.async_api import expect

from asyncq import Client, CronItem, JobState, Limit, Worker, task
from tests.engine.maintenance.test_rounds import claim_as_a_dead_worker
from tests.support.browser import page
from tests.web.pages import answer, hear, press, see


@task(concurrency=Limit(2, by="tenant", name="tenants"))
async def sync(tenant: str) -> None:
    """A task whose limit has a key."""


async def test_a_task_is_paused_and_resumed_on_its_page(client: Client, address: str, browser: str) -> None:
    """The reason is stored."""
    await client.add_job("sync", {"tenant": "acme"})

    async with page(browser) as shown:
        await shown.goto(f"{address}#/tasks/sync")
        await press(shown, "Pause")
        await answer(shown, "Pause", reason="provider is down")
        await hear(shown, "sync is paused.")
        (pause,) = await client.admin.paused()
        assert ("task", "sync", "provider is down") == (pause.what, pause.name, pause.reason)

        await see(shown, "provider is down")
        await press(shown, "Resume")
        await hear(shown, "sync is resumed.")

    assert [] == await client.admin.paused()


async def test_a_limit_and_one_of_its_keys_are_changed(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """What is set by hand is undone by one press."""
    await client.add_job("sync", {"tenant": "acme"})
    await Worker(dsn, [sync], schema=schema).run_once()
    await client.add_job("sync", {"tenant": "acme"})

    async with page(browser) as shown:
        await shown.goto(f"{address}#/limits")
        await see(shown, "2 at once of each key")
        await press(shown, "Change")
        await answer(shown, "Set", concurrency="5", count="100", per="60")
        await see(shown, "5 at once of each key, 100 starts in 60 s of each key")
        await press(shown, "tenants")
        await see(shown, "acme")
        keys = shown.get_by_role("region", name="Keys")
        await keys.get_by_role("button", name="Pause").click()
        await answer(shown, "Pause", reason="asked for")
        await see(shown, "The key acme of the limit tenants is paused")
        await press(shown, "Undo")
        await see(shown, "2 at once of each key")

    (limit,) = await client.admin.limits()
    assert {} == limit.overrides


async def test_a_queue_is_paused_and_resumed(client: Client, address: str, browser: str) -> None:
    """In its row, whose button says what is next."""
    await client.add_job("sync", {"tenant": "acme"}, queue="mail")

    async with page(browser) as shown:
        await shown.goto(f"{address}#/queues")
        await press(shown, "Pause")
        await answer(shown, "Pause", reason="full")
        await hear(shown, "mail is paused.")
        (pause,) = await client.admin.paused()
        await press(shown, "Resume")
        await hear(shown, "mail is resumed.")

    assert ("queue", "mail", "full", []) == (pause.what, pause.name, pause.reason, await client.admin.paused())


async def test_a_worker_that_is_gone_is_unlocked(
    client: Client, db: asyncpg.Connection, schema: str, address: str, browser: str
) -> None:
    """Its job waits again; a live worker has no such button."""
    job = await client.add_job("sync", {"tenant": "acme"})
    await claim_as_a_dead_worker(db, schema, seconds_ago=7200, lease=3600)

    async with page(browser) as shown:
        await shown.goto(f"{address}#/workers")
        await press(shown, "Unlock")
        await answer(shown, "Unlock")
        await hear(shown, "1 jobs are returned.")
        await expect(shown.get_by_role("button", name="Unlock")).to_have_count(0)

    assert JobState.AVAILABLE == (await client.get_job(job.id)).state


async def test_everything_is_paused_and_resumed(client: Client, address: str, browser: str) -> None:
    """The overview says it to everybody."""
    async with page(browser) as shown:
        await shown.goto(f"{address}#/limits")
        await press(shown, "Pause everything")
        await answer(shown, "Pause", reason="a disk is replaced")
        await shown.goto(f"{address}#/")
        await see(shown, "Everything is paused")
        await see(shown, "a disk is replaced")
        await shown.goto(f"{address}#/limits")
        await press(shown, "Resume everything")
        await hear(shown, "everything is resumed.")

    assert [] == await client.admin.paused()


async def test_a_recurring_item_is_run_paused_changed_and_removed(client: Client, address: str, browser: str) -> None:
    """Each press changes what is stored."""
    await client.cron.add(CronItem("sync", "0 4 * * *", identifier="nightly"))

    async with page(browser) as shown:
        await shown.goto(f"{address}#/cron")
        await see(shown, "nightly")
        await press(shown, "Run now")
        await hear(shown, "is added.")
        (job,) = (await client.admin.find_jobs()).jobs
        assert "sync" == job.task

        await press(shown, "Pause")
        await hear(shown, "It is paused.")
        assert (await client.cron.get_item("nightly")).paused_at is not None
        await press(shown, "Resume")
        await hear(shown, "It is resumed.")

        await press(shown, "Change")
        await answer(shown, "Change", match="0 25 * * *", tz="Europe/Berlin")
        await see(shown, "25")
        await answer(shown, "Change", match="0 5 * * *")
        await see(shown, "0 5 * * *")
        item = await client.cron.get_item("nightly")
        assert ("0 5 * * *", "Europe/Berlin", None) == (item.expression, item.tz, item.paused_at)

        await press(shown, "Remove")
        await answer(shown, "Remove")
        await see(shown, "No worker has a crontab")

    assert [] == await client.cron.list_items()

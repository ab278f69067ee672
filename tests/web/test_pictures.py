"""Pictures of the dashboard for the guide: `ASYNCQ_PICTURES=docs/guide/pictures pytest tests/web/test_pictures.py`."""

import asyncio
import os
from html import escape
from pathlib import Path

import asyncpg
import pytest
from playwright.async_api import Page

from asyncq import Client, CronItem, JobContext, Limit, Rate, Worker, task
from tests.support.browser import page
from tests.support.terminal import in_terminal
from tests.web.pages import LIMIT_MS

FOLDER = os.environ.get("ASYNCQ_PICTURES")
# The path of each page, and the last part of it that is drawn.
PAGES = {
    "overview": ("", "main:has(.tile) canvas"),
    "jobs": ("jobs", "tbody tr"),
    "job": ("jobs/{waiting}", ".reasons b"),
    "limits": ("limits", "tbody tr"),
    "workers": ("workers", "tbody tr"),
}
TERMINAL = """
<body style="margin: 0; background: #16181d; color: #d8dbe2">
<pre style="margin: 0; padding: 16px; font: 14px/1.35 'DejaVu Sans Mono', monospace; width: max-content">{}</pre>
"""


@task(concurrency=Limit(2, by="tenant"))
async def import_orders(ctx: JobContext, tenant: str, file: str) -> None:
    """A task whose jobs are limited for each tenant."""
    await asyncio.sleep(600)


@task(max_attempts=1, rate=Rate(100, per="1 min", by="provider"))
async def send_email(to: str, provider: str) -> None:
    """A task that fails for some addresses."""
    if to.endswith(".invalid"):
        raise LookupError(f"no server takes mail for {to.partition('@')[2]}")


@task
async def build_report(month: str) -> None:
    """A task that is paused."""


# An hour of numbers, as workers would have written them.
PAST = """
with minute as (select n, date_trunc('minute', now()) - n * interval '1 minute' as at from generate_series(1, 60) as n)
insert into {schema}._stats
    (at, took_s, waited_s, task_id, span_s, completed, retried, discarded, cancelled, snoozed, took, waited)
  select at, 1, 1, (select min(id) from {schema}._tasks), 60,
    300 + 180 * sin(n / 9.0) + 40 * sin(n * 1.7), 12 + 9 * sin(n / 4.0),
    case when n between 20 and 26 then 9 else 0 end, 0, 0, array[0,0,0,0,5,30,90,140,60,9 + n % 7,3,0,0,0,0,0,0,0,0,0],
    array[40,90,30,12,6,4,2,case when n between 18 and 27 then 90 else 1 end,0,0,0,0,0,0,0,0,0,0,0,0]
  from minute
"""
DEPTHS = """
with minute as (select n, date_trunc('minute', now()) - n * interval '1 minute' as at from generate_series(1, 60) as n)
insert into {schema}._depths
  select at, 1, 0, case when n between 18 and 27 then 900 - 80 * abs(22 - n) else 30 + 20 * sin(n / 3.0) end,
    8 + 2 * sin(n / 5.0), 0, 0, 1, 10, 8
  from minute on conflict do nothing
"""


async def fill(client: Client) -> int:
    """Jobs on all pages; returns the id of one that waits for its limit."""
    mails = [f"user{number}@example.{'invalid' if number % 3 == 0 else 'com'}" for number in range(30)]
    await client.add_jobs([send_email.job(to=mail, provider="ses") for mail in mails])
    await client.admin.pause(task="build_report", reason="the warehouse is reindexed", by="ann")
    await client.add_jobs([build_report.job(month=f"2026-{month:02}") for month in range(1, 10)])
    await client.cron.add(
        CronItem("build_report", "0 4 1 * *", payload={"month": "2026-12"}, identifier="monthly report")
    )
    files = [(tenant, f"orders-{number}.csv") for tenant in ("acme", "globex", "initech") for number in range(8)]
    orders = await client.add_jobs([import_orders.job(tenant=tenant, file=file) for tenant, file in files])
    while len(await client.admin.running()) < 6 or (await client.admin.counts()).discarded < 10:
        await asyncio.sleep(0.05)
    return orders[7].id


async def take(shown: Page, last: str, file: Path) -> None:
    """Take a picture once the last part of a page is drawn."""
    await shown.locator(last).first.wait_for(timeout=LIMIT_MS)
    await shown.screenshot(path=file)


@pytest.mark.skipif(FOLDER is None, reason="ASYNCQ_PICTURES names the folder for the pictures")
async def test_pictures_are_taken(
    client: Client, db: asyncpg.Connection, address: str, browser: str, dsn: str, schema: str
) -> None:
    """Of a real worker at work: wide and light, the overview narrow and dark too, and `asyncq top`."""
    worker = Worker(dsn, [import_orders, send_email, build_report], schema=schema, grace=0)
    folder = Path(str(FOLDER))
    async with worker.start():
        waiting = await fill(client)
        for text in (PAST, DEPTHS):
            await db.execute(text.format(schema=schema))
        for name, (path, last) in PAGES.items():
            async with page(browser, width=1200, height=760) as shown:
                await shown.goto(f"{address}#/{path.format(waiting=waiting)}")
                await take(shown, last, folder / f"dashboard-{name}.png")
        async with page(browser, width=380, height=760, dark=True) as shown:
            await shown.goto(address)
            await take(shown, "main:has(.tile) canvas", folder / "dashboard-narrow.png")
        async with (
            in_terminal("top", "--dsn", dsn, "--schema", schema, columns=134, lines=36) as terminal,
            page(browser) as shown,
        ):
            screen = await terminal.shows("LookupError")
            await shown.set_content(TERMINAL.format(escape("\n".join(screen))))
            await shown.locator("pre").screenshot(path=folder / "top.png")
        await client.admin.cancel_jobs([job.id for job in await client.admin.running()])

"""`asyncq metrics`: the numbers of a store, printed or served."""

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, CronItem, JobSpec, Worker, task
from asyncq.cli import main
from asyncq.metrics import store_metrics
from tests.engine.probes.test_counters import documented, exported
from tests.support.cli import started
from tests.support.web import Page, fetch

Output = pytest.CaptureFixture[str]


@task
async def greet() -> None:
    """A job that ends well."""


async def page_of(client: Client) -> Page:
    """The page of metrics of a store."""
    text, kind = await store_metrics(client)
    return Page(200, text.decode(), {"content-type": kind})


async def test_names_types_and_labels_are_those_of_the_guide(dsn: str, schema: str, client: Client) -> None:
    """They are a contract, as those of workers."""
    await client.cron.add(CronItem("greet", "0 3 * * *"))
    await client.add_job(greet)

    assert documented("asyncq_store_") == exported((await page_of(client)).text)


async def test_the_numbers_are_those_of_the_store(dsn: str, schema: str, client: Client) -> None:
    """Every state has a number, also one without jobs: an alert must not miss its series."""
    await client.add_jobs([greet.job(), greet.job(), greet.job().with_options(run_at=datetime.now(UTC) + timedelta(1))])
    failed = await client.add_job(greet)
    await client.admin.discard_jobs([failed.id])
    before = await page_of(client)
    async with Worker(dsn, [greet], schema=schema, concurrency=7).start():
        during = await page_of(client)

    states = ("scheduled", "available", "active", "retryable", "pending", "cancelled", "discarded")
    assert [1, 2, 0, 0, 0, 0, 1] == [before.value("asyncq_store_jobs", state=state) for state in states]
    assert (2, 0, 0) == tuple(before.value(f"asyncq_store_{name}") for name in ("backlog", "slots", "busy"))
    assert (1, 0, 7) == (
        during.value("asyncq_store_workers", state="live"),
        during.value("asyncq_store_workers", state="dead"),
        during.value("asyncq_store_slots"),
    )
    assert before.value("asyncq_store_dead_rows", table="_jobs") is not None
    assert 2 == before.value("asyncq_store_due_jobs", task="greet")
    assert 0 < (before.value("asyncq_store_oldest_due_seconds") or 0) < 60


async def test_a_slot_that_is_no_job_yet_is_overdue(client: Client, db: asyncpg.Connection, schema: str) -> None:
    """No worker runs that would add it."""
    await client.cron.add(CronItem("greet", "* * * * *", identifier="often"))
    await client.cron.add(CronItem("greet", "0 3 1 1 *", identifier="later"))  # A minute could end in between.
    await db.execute(
        f"update {schema}.known_crontabs set known_since = now() - interval '1 hour' where identifier = 'often'"
    )
    page = await page_of(client)
    overdue = {name: page.value("asyncq_store_cron_overdue_seconds", item=name) for name in ("often", "later")}

    assert 0 == overdue["later"]
    assert 3500 < (overdue["often"] or 0) < 3700


async def test_due_jobs_of_tasks_beyond_the_first_200_share_one_label(client: Client) -> None:
    """As in the metrics of workers; none is lost."""
    await client.add_jobs([JobSpec(task=f"t{number}") for number in range(250)])
    samples = (await page_of(client)).samples.items()
    found = {dict(labels)["task"]: due for (name, labels), due in samples if name == "asyncq_store_due_jobs"}

    assert (201, 50, 250) == (len(found), found["other"], sum(found.values()))


async def test_the_command_prints_them(dsn: str, schema: str, client: Client, capsys: Output) -> None:
    """For cron jobs that push, and for people."""
    code = await run_sync(partial(main, ["metrics", "--dsn", dsn, "--schema", schema]))
    page = Page(200, capsys.readouterr().out, {})

    assert (0, 0) == (code, page.value("asyncq_store_backlog"))


async def test_the_command_serves_them_until_it_is_stopped(
    dsn: str, schema: str, client: Client, tmp_path: Path
) -> None:
    """Each scrape reads the database."""
    with started(tmp_path, "metrics", "--schema", schema, "--http", "127.0.0.1:0", DATABASE_URL=dsn) as process:
        url = (await process.says(r"http://\S+/metrics")).strip()
        first = await fetch(url)
        await client.add_job("greet")
        second = await fetch(url, accept="application/openmetrics-text; version=1.0.0")
        health = await fetch(url.replace("metrics", "healthz"))
        backlog = await fetch(url.replace("metrics", "backlog"))
        process.signal(signal.SIGINT)
        code = await process.end()

    assert (0, 200, 130) == (first.value("asyncq_store_backlog"), health.status, code)
    assert "asyncq_store_backlog 1.0\n" in second.text
    assert (backlog.text, backlog.headers["content-type"]) == ('{"jobs": 1}\n', "application/json")


async def test_a_database_that_cannot_be_used_is_503_and_says_why(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, tmp_path: Path
) -> None:
    """The endpoint goes on: the next scrape may find the database again."""
    with started(tmp_path, "metrics", "--schema", schema, "--http", "127.0.0.1:0", DATABASE_URL=dsn) as process:
        url = (await process.says(r"http://\S+/metrics")).strip()
        await db.execute(f"alter schema {schema} rename to {schema}_away")
        try:
            away = await fetch(url)
        finally:
            await db.execute(f"alter schema {schema}_away rename to {schema}")
        back = await fetch(url)

    assert (503, 200) == (away.status, back.status)
    assert "asyncq migrate" in away.text


def test_without_the_package_the_error_says_what_to_install() -> None:
    """It is an extra."""
    program = "import sys; sys.modules['prometheus_client.core'] = None\nimport asyncq.metrics"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "ConfigurationError: metrics need the package prometheus_client: pip install" in done.stderr

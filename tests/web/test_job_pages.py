"""The pages of jobs in a real browser: each action, and its effect in the database."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from playwright.async_api import expect

from asyncq import Client, JobCancelled, JobContext, JobState, Worker, task
from tests.support.browser import page
from tests.support.seen import Seen
from tests.web.pages import LIMIT_MS, answer, hear, press, see


@task(max_attempts=1)
async def fail() -> None:
    """A task that fails for good."""
    raise RuntimeError("the provider said no")


@task
async def wait(ctx: JobContext, seconds: float) -> None:
    """A task that runs until it is cancelled."""
    await asyncio.sleep(seconds)


async def failed(client: Client, dsn: str, schema: str, count: int = 1) -> list[int]:
    """The ids of jobs that have failed for good."""
    added = await client.add_jobs([fail.job()] * count)
    await Worker(dsn, [fail], schema=schema).run_once()
    return [job.id for job in added]


async def test_the_page_of_a_job_says_why_it_does_not_run(client: Client, address: str, browser: str) -> None:
    """In a sentence, before anything else."""
    job = await client.add_job("wait", {"seconds": 1})

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs/{job.id}")

        await see(shown, "no worker is alive")
        await see(shown, '"seconds": 1')


async def test_the_times_of_a_reason_are_those_of_the_browser(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """A reader must not add hours to one time of a page, and none to the other."""
    job = await client.add_job(wait, 600)

    async with Worker(dsn, [wait], schema=schema, grace=0).start(), page(browser) as shown:
        await shown.goto(f"{address}#/jobs/{job.id}")
        reason = shown.locator(".reasons p")
        await expect(reason).to_contain_text("runs on worker", timeout=LIMIT_MS)
        text = await reason.inner_text()
        claimed = await shown.locator("dt:text-is('Claimed') + dd").inner_text()

    assert ("+00", claimed.partition(" (")[0]) == ("+00", text.partition(" since ")[2])


async def test_a_failed_job_is_retried_on_its_page(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """Its error and its failed attempt are shown."""
    (job_id,) = await failed(client, dsn, schema)

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs/{job_id}")
        await see(shown, "RuntimeError: the provider said no")
        await see(shown, "Attempt 1")
        await press(shown, "Retry")
        await hear(shown, f"Job {job_id} is retried.")

    job = await client.get_job(job_id)
    assert (JobState.AVAILABLE, 0) == (job.state, job.attempts)


async def test_a_job_that_waits_for_its_time_is_run_now(client: Client, address: str, browser: str) -> None:
    """Its time becomes now; a job that is due has no such button."""
    (job,) = await client.add_jobs([wait.job(1.0).with_options(run_at=datetime.now(UTC) + timedelta(hours=1))])

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs/{job.id}")
        await press(shown, "Run now")
        await hear(shown, f"Job {job.id} is made due now.")
        await expect(shown.get_by_role("button", name="Run now")).to_have_count(0, timeout=LIMIT_MS)

    assert JobState.AVAILABLE == (await client.get_job(job.id)).state


@pytest.mark.parametrize(
    ("button", "fields", "state"),
    [("Cancel", {}, None), ("Mark completed", {}, None), ("Mark failed", {"error": "by ann"}, JobState.DISCARDED)],
)
async def test_a_waiting_job_is_ended_on_its_page(
    client: Client, address: str, browser: str, button: str, fields: dict[str, str], state: JobState | None
) -> None:
    """A job that ends without failure is gone, since nothing keeps it."""
    job = await client.add_job("wait", {"seconds": 1})

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs/{job.id}")
        await press(shown, button)
        await answer(shown, button, **fields)
        await hear(shown, f"Job {job.id} is")

    if state is None:
        assert [] == (await client.admin.find_jobs()).jobs
    else:
        found = await client.get_job(job.id)
        assert (state, "by ann") == (found.state, found.last_error)


async def test_a_running_job_is_cancelled_on_the_page_of_workers(
    client: Client, address: str, browser: str, dsn: str, schema: str, seen: Seen
) -> None:
    """The handler of a live worker ends."""
    worker = Worker(dsn, [wait], schema=schema, observers=[seen])
    async with worker.start(), page(browser) as shown:
        job = await client.add_job(wait, 600)
        await shown.goto(f"{address}#/workers")
        await see(shown, str(job.id))
        await press(shown, "Cancel")
        await answer(shown, "Cancel the job")
        await hear(shown, "It is cancelled.")

        await seen.wait_for(JobCancelled)


async def test_a_job_is_found_by_its_payload_and_its_error(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """The filter is in the address, so that it can be sent to a colleague."""
    (job_id, *_) = await failed(client, dsn, schema, 2)
    other = await client.add_job("wait", {"user": {"id": 7}})

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs")
        await see(shown, str(other.id))
        await shown.locator("[name=has]").fill('{"user": {"id": 7}}')
        await press(shown, "Search")
        await shown.wait_for_selector(f"td a:has-text('{other.id}')")
        await expect(shown.locator("tbody tr")).to_have_count(1)
        await shown.goto(f"{address}#/jobs?error=provider")

        await shown.wait_for_selector(f"td a[href='#/jobs/{job_id}']")
        assert 2 == await shown.locator("tbody tr").count()


async def test_ticked_jobs_are_changed_together(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """Others stay as they are."""
    first, second, third = await failed(client, dsn, schema, 3)

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs?state=discarded")
        for job_id in (first, second):
            await shown.get_by_label(f"Job {job_id}", exact=True).check()
        await press(shown, "Retry")
        await answer(shown, "Retry")
        await hear(shown, "2 of 2 retried.")

    states = [(await client.get_job(job_id)).state for job_id in (first, second, third)]
    assert [JobState.AVAILABLE, JobState.AVAILABLE, JobState.DISCARDED] == states


async def test_all_jobs_that_match_are_changed(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """More than one page of them; jobs that are added after the preview are left alone."""
    await client.add_jobs([wait.job(1.0)] * 1200)
    late = None

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs?task=wait")
        await shown.get_by_label("Change all that match").select_option("cancel")
        await see(shown, "1,200 available")
        late = await client.add_job(wait, 1.0)
        await answer(shown, "Cancel")
        await see(shown, "1,200 of 1,200")
        await see(shown, "done")

    assert [late.id] == [job.id for job in (await client.admin.find_jobs()).jobs]


async def test_without_a_filter_the_word_has_to_be_typed(client: Client, address: str, browser: str) -> None:
    """A slip must not cancel everything."""
    job = await client.add_job(wait, 1.0)

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs")
        await shown.get_by_label("Change all that match").select_option("cancel")
        await answer(shown, "Cancel", word="all")
        assert JobState.AVAILABLE == (await client.get_job(job.id)).state
        await answer(shown, "Cancel", word="everything")
        await see(shown, "1 of 1")

    assert [] == (await client.admin.find_jobs()).jobs


async def test_a_job_is_added_on_the_page(client: Client, address: str, browser: str) -> None:
    """The page of the new job opens. A mistake costs nothing that was typed."""
    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs")
        await press(shown, "Add a job")
        await answer(shown, "Add", task="wait", payload='{"seconds": 2', queue="q")
        await see(shown, "The payload is no JSON")
        await answer(shown, "Add", payload='{"seconds": 2}')
        await see(shown, "no worker is alive")

    (job,) = (await client.admin.find_jobs()).jobs
    assert ("wait", "q", '{"seconds":2}') == (job.task, job.queue, job.payload)


@task(keep="1 hour")
async def add(left: int, right: int) -> int:
    """A task whose jobs are kept."""
    return left + right


async def test_a_kept_job_is_found_after_its_end_and_removed(
    client: Client, address: str, browser: str, dsn: str, schema: str
) -> None:
    """Its page shows the result; jobs that have not ended are in the other list."""
    ended = [job.id for job in await client.add_jobs([add.job(20, 22), add.job(1, 1)])]
    await Worker(dsn, [add], schema=schema).run_once()
    (waiting,) = await client.add_jobs([add.job(2, 2)])

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs?task=add")
        await shown.wait_for_selector(f"td a:text-is('{waiting.id}')")
        await expect(shown.locator("tbody tr")).to_have_count(1)
        await shown.locator("[name=state]").select_option("ended as completed")
        await press(shown, "Search")
        await shown.wait_for_selector(f"td a:text-is('{ended[0]}')")
        await expect(shown.locator("tbody tr")).to_have_count(2)
        await shown.get_by_label(f"Job {ended[1]}", exact=True).check()
        await press(shown, "Remove")
        await answer(shown, "Remove")
        await hear(shown, "1 of 1 removed.")
        await expect(shown.locator("tbody tr")).to_have_count(1)
        await shown.locator(f"td a:text-is('{ended[0]}')").click()
        await see(shown, "42")
        await see(shown, "Kept until")

    assert [ended[0]] == [job.id for job in await client.admin.list_ended_jobs()]


async def test_ended_jobs_are_read_page_by_page(client: Client, http: httpx.AsyncClient, dsn: str, schema: str) -> None:
    """By state and task; the next page begins behind the last id; others of these names are refused."""
    await Worker(dsn, [add], schema=schema).run_once()  # It stores for how long jobs of the task are kept.
    ids = [str(job.id) for job in await client.add_jobs([add.job(1, 1)] * 3)]
    await client.admin.cancel_jobs([int(ids[0])])
    await Worker(dsn, [add], schema=schema).run_once()
    first = (await http.get("api/history", params={"state": "completed", "most": 1})).json()
    rest = (await http.get("api/history", params={"task": "add", "start": first["next"]})).json()

    assert [[ids[2]], [ids[1], ids[0]]] == [[job["id"] for job in page["jobs"]] for page in (first, rest)]
    assert (None, ["completed", "cancelled"]) == (rest["next"], [job["state"] for job in rest["jobs"]])
    for wrong in ({"state": "active"}, {"queue": "q"}, {"start": "x"}, {"most": 1001}):
        refused = await http.get("api/history", params=wrong)
        assert (422, True) == (refused.status_code, refused.json()["error"]["message"] != ""), wrong


@pytest.mark.parametrize(
    "given", [{"unknown": "x"}, {"state": "ended"}, {"has": "{"}, {"most": "0"}, {"start": "x"}, {"due_before": "soon"}]
)
async def test_a_wrong_filter_is_refused_with_a_reason(http: httpx.AsyncClient, given: dict[str, str]) -> None:
    """A member that is not known must not mean all jobs, neither for a look nor for a change."""
    look = await http.get("api/jobs", params=given)
    preview = await http.post("api/bulk/preview", json={"filter": {**given, "other": 1}})

    assert [422, 422] == [look.status_code, preview.status_code]
    assert all(answer.json()["error"]["message"] for answer in (look, preview))

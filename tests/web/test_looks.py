"""The looks of the pages: narrow, dark, by keyboard, for screen readers, and with hostile texts."""

from pathlib import Path

import axe_core_python
import pytest
from playwright.async_api import expect

from asyncq import Client, JobSpec
from tests.support.browser import page
from tests.web.pages import LIMIT_MS, press, see

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
PAGES = (
    "",
    "jobs",
    "jobs?state=ended",
    "tasks",
    "tasks/hello",
    "queues",
    "limits",
    "cron",
    "workers",
    "bulk",
    "jobs/{id}",
)
FINDINGS = "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map((one) => one.html)]))"
# The parts of a page of which one has to scroll sideways to see the rest.
HIDDEN = """
[...document.querySelectorAll("nav, .scroll")]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.outerHTML)
"""
TITLES = {"j": "Jobs", "t": "Tasks", "q": "Queues", "l": "Limits", "c": "Recurring jobs", "w": "Workers"}
HOSTILE = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


async def filled(client: Client) -> int:
    """Jobs on all pages; returns the id of one."""
    job = await client.add_job("hello", {"text": "x" * 300, "html": HOSTILE}, queue="a queue " * 10)
    await client.admin.discard_jobs([(await client.add_job("hello")).id], HOSTILE)
    await client.add_job(HOSTILE[:100], {HOSTILE: HOSTILE}, queue=HOSTILE[:100], job_key=HOSTILE, flags=[HOSTILE])
    await client.admin.pause(task="hello", reason=HOSTILE, by=HOSTILE[:100])
    return job.id


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_each_page_is_accessible_narrow_and_unharmed(
    client: Client, address: str, browser: str, dark: bool
) -> None:
    """No finding of axe, no sideways scrolling at 380 pixels, also of no part, no text that is taken for HTML."""
    job_id = await filled(client)

    async with page(browser, width=380, dark=dark) as shown:
        for name in PAGES:
            await shown.goto(f"{address}#/{name.replace('{id}', str(job_id))}")
            await shown.wait_for_selector("h1", timeout=LIMIT_MS)
            await shown.wait_for_load_state("networkidle")
            await shown.evaluate(AXE)
            assert [] == await shown.evaluate(FINDINGS), name
            assert 380 >= await shown.evaluate("document.documentElement.scrollWidth"), name
            assert [] == await shown.evaluate(HIDDEN), name
            assert await shown.evaluate("window.broken === undefined"), name


async def test_keys_lead_to_the_pages(client: Client, address: str, browser: str) -> None:
    """And a slash to the search."""
    async with page(browser) as shown:
        await shown.goto(address)
        await see(shown, "Overview")
        for key, title in TITLES.items():
            await shown.keyboard.press(key)
            await shown.wait_for_selector(f"h1:text-is('{title}')", timeout=LIMIT_MS)
        await shown.keyboard.press("j")
        await shown.wait_for_selector("[data-search]")
        await shown.keyboard.press("/")
        assert "task" == await shown.evaluate("document.activeElement.name")
        await shown.keyboard.type("j")
        assert "j" == await shown.input_value("[data-search]")


async def test_a_slash_leads_to_the_search_from_each_page(client: Client, address: str, browser: str) -> None:
    """The field has the focus once the page of jobs is there."""
    async with page(browser) as shown:
        await shown.goto(f"{address}#/workers")
        await see(shown, "No worker is alive.")
        await shown.keyboard.press("/")
        await expect(shown.locator("[data-search]")).to_be_focused(timeout=LIMIT_MS)


async def test_a_long_list_ends_with_the_way_to_its_rest(client: Client, address: str, browser: str) -> None:
    """What is loaded later stands behind what was there."""
    await client.add_jobs([JobSpec(task="hello")] * 70)
    order = "[...document.querySelectorAll('h1, form, table, p > button')].map((one) => one.localName)"

    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs")
        await shown.get_by_role("button", name="Look further").wait_for(timeout=LIMIT_MS)
        assert ["h1", "form", "table", "button"] == await shown.evaluate(order)
        await press(shown, "Look further")
        await expect(shown.locator("tbody tr")).to_have_count(70, timeout=LIMIT_MS)
        await expect(shown.get_by_role("button", name="Look further")).to_have_count(0)


async def test_an_address_that_is_typed_wrongly_leads_to_a_page(client: Client, address: str, browser: str) -> None:
    """Each page has a heading, also that of a job or a place that does not exist."""
    async with page(browser) as shown:
        for name, title, said in (
            ("jobs/999999", "Job 999999", "there is no job 999999"),
            ("jobs/x", "Job x", "no job has the id 'x'"),
            ("tasks/100%", "100%", "no live worker knows it"),
            ("nowhere", "There is no such page", ""),
        ):
            await shown.goto(f"{address}#/{name}")
            await shown.wait_for_selector(f"h1:text-is('{title}')", timeout=LIMIT_MS)
            await see(shown, said)


async def test_a_dialog_gives_the_focus_back(client: Client, address: str, browser: str) -> None:
    """To the button that opened it: with the keyboard one would begin at the top of the page again."""
    async with page(browser) as shown:
        await shown.goto(f"{address}#/jobs")
        opener = shown.get_by_role("button", name="Add a job")
        for closing in ("Escape", "Close"):
            await opener.click(timeout=LIMIT_MS)
            await shown.get_by_role("dialog").wait_for()
            if closing == "Close":
                await press(shown, "Close")
            else:
                await shown.keyboard.press(closing)
            await expect(shown.get_by_role("dialog")).to_have_count(0)
            await expect(opener).to_be_focused()


async def test_the_overview_changes_without_a_reload(client: Client, address: str, browser: str) -> None:
    """The server sends what has changed; what comes later does not change the order of the page."""
    async with page(browser) as shown:
        await shown.goto(address)
        await shown.wait_for_selector(".tile.available b:text-is('0')", timeout=LIMIT_MS)
        assert ["Overview", "Failed for good, by error"] == await shown.locator("h1, h2").all_inner_texts()
        await client.add_job("hello")
        await shown.wait_for_selector(".tile.available b:text-is('1')", timeout=LIMIT_MS)

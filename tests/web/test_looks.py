"""The looks of the pages: narrow, dark, by keyboard, for screen readers, and with hostile texts."""

from pathlib import Path

import axe_core_python
import pytest

from asyncq import Client
from tests.support.browser import page
from tests.web.pages import LIMIT_MS, see

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
    """No finding of axe, no sideways scrolling at 380 pixels, no text that is taken for HTML."""
    job_id = await filled(client)

    async with page(browser, width=380, dark=dark) as shown:
        for name in PAGES:
            await shown.goto(f"{address}#/{name.replace('{id}', str(job_id))}")
            await shown.wait_for_selector("h1", timeout=LIMIT_MS)
            await shown.wait_for_load_state("networkidle")
            await shown.evaluate(AXE)
            assert [] == await shown.evaluate(FINDINGS), name
            assert 380 >= await shown.evaluate("document.documentElement.scrollWidth"), name
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


async def test_the_overview_changes_without_a_reload(client: Client, address: str, browser: str) -> None:
    """The server sends what has changed; what comes later does not change the order of the page."""
    async with page(browser) as shown:
        await shown.goto(address)
        await shown.wait_for_selector(".tile.available b:text-is('0')", timeout=LIMIT_MS)
        assert ["Overview", "Failed for good, by error"] == await shown.locator("h1, h2").all_inner_texts()
        await client.add_job("hello")
        await shown.wait_for_selector(".tile.available b:text-is('1')", timeout=LIMIT_MS)

"""Numbers over time on the overview and on the page of a task."""

import re

import httpx
import pytest
from playwright.async_api import expect

from asyncq import Client, Worker, task
from tests.support.browser import page
from tests.web.pages import LIMIT_MS

ENDS = re.compile("in all: completed 6, retried 0, discarded 3$")
# The colour of a name, as a style computes it.
GOOD = """() => {
  const shown = document.body.appendChild(document.createElement("p"));
  shown.style.color = "var(--good)";
  const colour = getComputedStyle(shown).color;
  shown.remove();
  return colour;
}"""


@task(max_attempts=1)
async def sometimes(number: int) -> None:
    """A task of which one job in three fails."""
    if number % 3 == 0:
        raise ValueError(number)


async def test_ended_runs_are_drawn(client: Client, address: str, browser: str, dsn: str, schema: str) -> None:
    """A chart says its sums to screen readers too."""
    await client.add_jobs([sometimes.job(number) for number in range(9)])
    await Worker(dsn, [sometimes], schema=schema).run_once()

    async with page(browser) as shown:
        await shown.goto(address)
        chart = shown.get_by_role("img", name="Attempts ended per minute")
        await expect(chart).to_have_attribute("aria-label", ENDS, timeout=LIMIT_MS)
        await expect(chart.locator("canvas")).to_be_visible()
        await expect(chart.locator(".u-legend")).to_contain_text("completed")
        for name, step in (("6 hours", "15 min"), ("1 day", "30 min"), ("1 week", "3 h")):
            await shown.get_by_role("button", name=name).click()
            longer = shown.get_by_role("img", name=f"Attempts ended per {step}")
            await expect(longer).to_have_attribute("aria-label", ENDS, timeout=LIMIT_MS)
        await shown.goto(f"{address}#/tasks/sometimes")
        day = shown.get_by_role("img", name="Attempts ended per 30 min")
        await expect(day).to_have_attribute("aria-label", ENDS, timeout=LIMIT_MS)
        await expect(shown.locator(".histogram li").first).to_be_visible()


async def test_a_chart_takes_the_colours_of_the_theme_that_is_chosen(address: str, browser: str) -> None:
    """Also while the page is open."""
    async with page(browser) as shown:
        await shown.goto(address)
        mark = shown.locator(".u-legend .u-marker").nth(1)
        colours = []
        for scheme in ("light", "dark", "light"):
            await shown.emulate_media(color_scheme=scheme)
            good = await shown.evaluate(GOOD)
            await expect(mark).to_have_css("border-top-color", good, timeout=LIMIT_MS)
            colours.append(good)

    assert colours[0] == colours[2] != colours[1]


async def test_steps_without_runs_are_in_a_chart_too(
    client: Client, http: httpx.AsyncClient, dsn: str, schema: str
) -> None:
    """Else a line would hide a pause of an hour, and one step alone would be drawn on an axis of years."""
    await client.add_jobs([sometimes.job(number) for number in range(1, 3)])
    await Worker(dsn, [sometimes], schema=schema).run_once()

    for minutes, step_s in ((60, 60), (10080, 10800)):
        series = (await http.get(f"api/series?minutes={minutes}")).json()
        ended, depths = series["ended"], series["depths"]
        first, *_, last = ended["at"]
        assert [first + nth * step_s for nth in range(len(ended["at"]))] == ended["at"] == depths["at"]
        assert 60 * minutes == last - first
        assert 2 == sum(ended["completed"])
        assert len(ended["at"]) - 1 == ended["completed"].count(0) == ended["took_p95"].count(None)


@pytest.mark.parametrize("minutes", ["0", "61", "x", "-60"])
async def test_a_chart_has_one_of_four_ranges(http: httpx.AsyncClient, minutes: str) -> None:
    """Any other number of points would be drawn badly, or cost much."""
    answer = await http.get(f"api/series?minutes={minutes}")

    assert 422 == answer.status_code
    assert "one of 60, 360, 1440, 10080" in answer.json()["error"]["message"]

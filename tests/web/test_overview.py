"""The overview in a real browser."""

from asyncq import Client
from tests.support.browser import page


async def test_it_shows_how_many_jobs_are_in_each_state(client: Client, address: str, browser: str) -> None:
    """The page loads its scripts under its own content policy."""
    await client.add_job("hello")

    async with page(browser) as shown:
        await shown.goto(address)
        await shown.wait_for_selector("dt:has-text('available') + dd")

        assert "1" == await shown.text_content("dt:has-text('available') + dd")

"""Steps on the pages of the dashboard, as a user takes them."""

from playwright.async_api import Page, expect

from tests.support.waiting import LIMIT_S

LIMIT_MS = LIMIT_S * 1000
expect.set_options(timeout=LIMIT_MS)


async def see(page: Page, text: str) -> None:
    """Wait until the page shows a text."""
    await expect(page.locator("body")).to_contain_text(text, timeout=LIMIT_MS)


async def press(page: Page, name: str) -> None:
    """Press the first button of this name, once it is there."""
    await page.get_by_role("button", name=name, exact=True).first.click(timeout=LIMIT_MS)


async def answer(page: Page, act: str, **fields: str) -> None:
    """Fill in the open dialog, and press its button."""
    dialog = page.get_by_role("dialog")
    for name, value in fields.items():
        await dialog.locator(f"[name={name}]").fill(value, timeout=LIMIT_MS)
    await dialog.get_by_role("button", name=act, exact=True).click(timeout=LIMIT_MS)


async def hear(page: Page, text: str) -> None:
    """Wait for a message."""
    await expect(page.get_by_role("status")).to_contain_text(text, timeout=LIMIT_MS)

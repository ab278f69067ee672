"""A real Chromium without a window, for as long as a test run lasts."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest
from playwright.async_api import Page, ViewportSize, async_playwright

from tests.support.debian import unpacked

NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--remote-debugging-port=0", "--remote-debugging-address=127.0.0.1", "--no-first-run"),
)


def chromium() -> tuple[str, dict[str, str]]:
    """The program, and the variables that it needs: `ASYNCQ_CHROMIUM`, the path, or Debian's package, fetched for it.

    Where there is none of these, the test is skipped.
    """
    for place in (os.environ.get("ASYNCQ_CHROMIUM"), *map(shutil.which, NAMES)):
        if place and os.access(place, os.X_OK):
            return place, {}
    if folder := unpacked("chromium-headless-shell", "fonts-dejavu-core", with_dependencies=True):
        found = list((folder / "usr" / "lib").glob("*-linux-gnu"))
        libraries = ":".join(f"{place}:{place}/pulseaudio" for place in found)
        return str(folder / "usr" / "lib" / "chromium" / "chromium-headless-shell"), {"LD_LIBRARY_PATH": libraries}
    pytest.skip("there is no Chromium here; install Debian's package, or name the program by ASYNCQ_CHROMIUM")


@contextmanager
def running() -> Generator[str]:
    """A browser; yields the address for programs that control it."""
    program, variables = chromium()
    with tempfile.TemporaryDirectory(prefix="asyncq-browser-", ignore_cleanup_errors=True) as folder:
        words = [program, *OPTIONS, f"--user-data-dir={folder}"]
        with subprocess.Popen(
            words, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield _address(process)
            finally:
                process.kill()


def _address(process: "subprocess.Popen[str]") -> str:
    said: list[str] = []
    for line in process.stderr or ():
        said.append(line)
        if found := re.search(r"listening on (ws://\S+)", line):
            return found[1]
    pytest.fail("Chromium did not start: " + "".join(said))


@asynccontextmanager
async def page(browser: str, *, width: int = 1200, height: int = 800, dark: bool = False) -> AsyncGenerator[Page]:
    """A page of its own, without cookies; the test fails on an error of a script or of the content policy."""
    faults: list[str] = []
    async with async_playwright() as playwright:
        connected = await playwright.chromium.connect_over_cdp(browser)
        context = await connected.new_context(
            viewport=ViewportSize(width=width, height=height), color_scheme="dark" if dark else "light"
        )
        opened = await context.new_page()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on(
            "console", lambda message: faults.append(message.text) if "Content Security" in message.text else None
        )
        yield opened
        await context.close()
    assert faults == []

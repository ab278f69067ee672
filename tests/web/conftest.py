"""Fixtures of the dashboard: a browser, and the dashboard of the test's schema, served."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from asyncq import Client
from asyncq.web import Dashboard
from tests.support import browser as browsers
from tests.support.serving import serving
from tests.support.waiting import LIMIT_S


@pytest.fixture(scope="session")
def browser() -> Iterator[str]:
    """The address for programs that control a Chromium, which all tests of a process share."""
    with browsers.running() as address:
        yield address


@pytest.fixture
async def address(client: Client) -> AsyncIterator[str]:
    """The address of a dashboard on which everybody may do everything."""
    async with Dashboard(client, authorize=lambda _: "write") as dashboard, serving(dashboard) as place:
        yield place


@pytest.fixture
async def http(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that dashboard, which sends what its page sends."""
    async with httpx.AsyncClient(base_url=address, headers={"x-asyncq": "1"}, timeout=LIMIT_S) as opened:
        yield opened

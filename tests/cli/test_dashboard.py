"""`asyncq dashboard` as a process: its address, and its end."""

import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from asyncq import Client
from tests.support.cli import LIMIT_S, Started, started

StartDashboard = Callable[..., AbstractContextManager[Started]]


@pytest.fixture
def dashboard(dsn: str, schema: str, client: Client, tmp_path: Path) -> StartDashboard:
    """Start `asyncq dashboard` on the test's schema, on a free port."""

    def start(*words: str) -> AbstractContextManager[Started]:
        return started(tmp_path, "dashboard", "--port", "0", "--schema", schema, *words, DATABASE_URL=dsn)

    return start


async def address_of(process: Started) -> str:
    """The address that it prints, with the token."""
    return (await process.says(r"http://\S+")).strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_dashboard_with_0_while_a_browser_listens(
    dashboard: StartDashboard, number: signal.Signals
) -> None:
    """Supervisors take the death by a signal for a failure. An open stream must not hold up the end."""
    with dashboard() as process:
        address = await address_of(process)
        async with httpx.AsyncClient(follow_redirects=True, timeout=LIMIT_S) as http:
            assert 200 == (await http.get(address)).status_code
            async with http.stream("GET", address.partition("?")[0] + "api/events") as stream:
                assert 200 == stream.status_code
                process.signal(number)
                code = await process.end()

    assert (0, False) == (code, "Traceback" in process.log.read_text())


async def test_a_signal_before_the_database_answers_ends_a_dashboard_with_0(tmp_path: Path) -> None:
    """A supervisor may stop it while it starts."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://app@127.0.0.1:{silent.getsockname()[1]}/app"
        with started(tmp_path, "dashboard", "--port", "0", DATABASE_URL=dsn) as process:
            silent.settimeout(20)
            line, _ = silent.accept()
            process.signal()
            code = await process.end()
            line.close()

    assert (0, "") == (code, process.log.read_text())

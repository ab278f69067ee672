"""A dashboard that is open during chaos: it answers after each outage, and harms nothing."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from asyncq.server import Server
from asyncq.web import Dashboard
from tests.crash.chaos import chaos_on, server_to_kill
from tests.support.serving import serving
from tests.support.waiting import LIMIT_S
from tests.web.test_security import READS, filled

SECONDS = float(os.environ.get("ASYNCQ_CHAOS_S", "25")) / 2
SEED = int(os.environ.get("ASYNCQ_CHAOS_SEED", random.SystemRandom().randrange(2**32)))
STREAM = "/api/events"
PATHS = [filled(path) for path in READS if path.startswith("/api/") and path != STREAM] + ["/metrics", "/readyz"]
# A page; a job, an operation, an item or a limit that is not there; an outage.
ANSWERS = (200, 404, 422)
OUTAGE = 503

pytestmark = [pytest.mark.crash, pytest.mark.timeout(6 * int(SECONDS) + 120)]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that this test may kill."""
    with server_to_kill() as made:
        yield made


class Reader:
    """Reads all pages and the stream again and again, as browsers do.

    Attributes:
        answers: How often each page was answered with each status.
        events: How many values the stream has sent.
    """

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.events = 0

    async def read_for_ever(self, address: str) -> None:
        """All pages, one after the other."""
        async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http:
            while True:
                for path in PATHS:
                    self.answers[path, (await http.get(path)).status_code] += 1

    async def follow_for_ever(self, address: str) -> None:
        """The stream, which is opened again when it ends."""
        async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http:
            while True:
                async with http.stream("GET", STREAM) as answer:
                    self.answers[STREAM, answer.status_code] += 1
                    async for line in answer.aiter_lines():
                        self.events += line.startswith("data: ")
                await anyio.sleep(0.1)

    async def answer_once_more(self) -> None:
        """Wait until each page is answered, and the stream sends a value."""
        seen, events = self.answers.copy(), self.events

        def missing() -> list[str]:
            since = self.answers - seen
            silent = [path for path in PATHS if not any(since[path, status] for status in ANSWERS)]
            return silent if self.events > events else [*silent, STREAM]

        with anyio.move_on_after(LIMIT_S):
            while missing():
                await anyio.sleep(0.1)
        assert [] == missing(), self.answers


async def test_a_dashboard_outlives_all_outages(server: Server, tmp_path: Path) -> None:
    """Each answer is a page or says that the database is away; all pages are back after the last outage."""
    reader = Reader()
    async with (
        chaos_on(server, tmp_path, SEED) as chaos,
        Dashboard(server.dsn, authorize=lambda _: "write") as dashboard,
        serving(dashboard) as address,
        anyio.create_task_group() as group,
    ):
        group.start_soon(reader.read_for_ever, address)
        group.start_soon(reader.follow_for_ever, address)
        await chaos.reign(SECONDS)
        await reader.answer_once_more()
        group.cancel_scope.cancel()
        print(f"seed {SEED}: {reader.events} events, {reader.answers.total()} answers; {' '.join(chaos.blows.dealt)}")

        assert set() == chaos.watch.violations
    assert {} == {at: times for at, times in reader.answers.items() if at[1] not in (*ANSWERS, OUTAGE)}

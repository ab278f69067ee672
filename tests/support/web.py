"""HTTP requests of tests: one request on a connection, as probes and scrapers send it."""

import http.client
import random
import socket
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from prometheus_client.parser import text_string_to_metric_families

from tests.support.waiting import LIMIT_S

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """An answer."""

    def __init__(self, status: int, text: str, headers: dict[str, str]) -> None:
        self.status = status
        self.text = text
        self.headers = headers

    @property
    def samples(self) -> Samples:
        """The metrics on it, as prometheus_client reads them."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """One of the metrics; None if it is missing."""
        return self.samples.get((name, frozenset(labels.items())))


def fetch_now(url: str, method: str = "GET", **headers: str) -> Page:
    """Send a request, in this thread."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_S)
    try:
        connection.request(method, parts.path, headers=headers)
        answer = connection.getresponse()
        return Page(answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()})
    finally:
        connection.close()


async def fetch(url: str, method: str = "GET", **headers: str) -> Page:
    """Send a request, while the event loop goes on."""
    return await run_sync(lambda: fetch_now(url, method, **headers))


def free_ports(number: int) -> int:
    """The first one of so many ports in a row that nobody uses at this moment.

    They are below those that Linux gives to connections: some test may open hundreds before these are used.
    """
    while True:
        first = random.randrange(10_000, 32_000)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + number):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first

"""`asyncq stats` and `asyncq top`: numbers over time, and what goes on."""

import json
from collections.abc import Iterator

import pytest
from anyio.to_thread import run_sync

from asyncq import Client, task
from asyncq.cli.failures import DATABASE, INTERRUPTED
from asyncq.server import Server
from asyncq.testing import run_due
from tests.cli.test_depths import run
from tests.cli.test_jobs import Output, words
from tests.support.outages import SCHEMA, own_server
from tests.support.session import session
from tests.support.terminal import INTERRUPT, in_terminal

__all__ = ["words"]


@task(max_attempts=1)
async def send(number: int) -> None:
    """Fails for 0."""
    if not number:
        raise OSError("no disk")


@pytest.fixture
async def ran(dsn: str, schema: str, client: Client) -> None:
    """Three jobs, of which one failed."""
    for number in range(3):
        await client.add_job(send, number)
    await run_due(dsn, [send], schema=schema)


async def test_stats_prints_a_line_for_each_task(words: list[str], ran: None, capsys: Output) -> None:
    """With --step one for each step too."""
    code, out, err = await run(capsys, "stats", *words)
    _, as_json, _ = await run(capsys, "stats", *words, "--task", "send", "--step", "1m", "--json")
    _, none, _ = await run(capsys, "stats", *words, "--task", "other")
    lines = out.splitlines()

    assert (0, "", ["send", "2", "0", "1", "0", "0"]) == (code, err, lines[1].split()[:6])
    assert lines[0].startswith("task  completed  retried  discarded")
    assert 2 == sum(json.loads(line)["completed"] for line in as_json.splitlines())
    assert 1 == len(none.splitlines())


async def test_top_prints_what_goes_on(words: list[str], ran: None, client: Client, capsys: Output) -> None:
    """Without a terminal it is printed once."""
    await client.add_job(send, 1)
    code, out, err = await run(capsys, "top", *words, "--once")

    assert (0, "") == (code, err)
    assert "0 workers, 0 of 0 slots busy, oldest due " in out
    assert "scheduled 0  available 1  active 0  retryable 0  pending 0  cancelled 0  discarded 1" in out
    assert ["1", "send", "OSError:", "no", "disk"] == out.splitlines()[-1].split()


async def test_top_is_drawn_again_until_it_is_interrupted(words: list[str], ran: None, client: Client) -> None:
    """In a terminal; no line is cut by the terminal itself, and none scrolls away."""
    async with in_terminal("top", *words, columns=60, lines=8) as terminal:
        first = await terminal.shows("scheduled 0  available 0  active 0")
        await client.add_job(send, 1)
        second = await terminal.shows("scheduled 0  available 1  active 0")
        terminal.press(INTERRUPT)
        code = await terminal.end()

    assert INTERRUPTED == code
    assert "Traceback" not in terminal.written
    for screen in (first, second):
        assert [] == [line for line in screen if len(line) > 60]
        assert len(screen) < 8


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that may be killed."""
    with own_server() as made:
        yield made


async def test_top_goes_on_after_an_outage(server: Server) -> None:
    """It says why it has no numbers, below are the last ones. A schema that is gone ends it: waiting would not help."""
    client = Client(server.dsn)
    await client.migrate()
    async with in_terminal("top", "--dsn", server.dsn, columns=100, lines=20) as terminal:
        await terminal.shows("available 0")
        await run_sync(server.kill)
        outage = await terminal.shows("trying again: ")
        await run_sync(server.restart)
        async with client:
            await client.add_job(send, 1)
        again = await terminal.shows("available 1")
        async with session(server.dsn, SCHEMA) as sql:
            await sql.execute("drop schema asyncq cascade")
        code = await terminal.end()

    assert (True, False) == (any("available 0" in line for line in outage), any("trying again" in one for one in again))
    assert (DATABASE, False) == (code, "Traceback" in terminal.written)

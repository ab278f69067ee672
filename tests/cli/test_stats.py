"""`asyncq stats` and `asyncq top`: numbers over time, and what goes on."""

import json

import pytest

from asyncq import Client, task
from asyncq.cli.failures import INTERRUPTED
from asyncq.testing import run_due
from tests.cli.test_depths import run
from tests.cli.test_jobs import Output, words
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
    assert "scheduled 0  available 1  active 0  retryable 0  cancelled 0  discarded 1" in out
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

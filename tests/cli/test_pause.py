"""`asyncq pause` and `asyncq resume`."""

import json
from functools import partial

import pytest
from anyio.to_thread import run_sync

from asyncq import Client
from asyncq.cli import main
from tests.cli.test_jobs import Output, words

__all__ = ["words"]


async def asyncq(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run a command in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, [*command]))
    return code, *capsys.readouterr()


async def test_a_task_is_paused_and_resumed(words: list[str], capsys: Output, client: Client) -> None:
    """The line says since when, by whom and why. Without options, `pause` lists what is paused."""
    code, out, err = await asyncq(capsys, "pause", "--task", "send", "--reason", "provider down", "--by", "ann", *words)
    _, listed, _ = await asyncq(capsys, "pause", *words)
    resumed = await asyncq(capsys, "resume", "--task", "send", *words)

    heading, line = out.splitlines()
    assert (0, "", out) == (code, err, listed)
    assert ["paused", "since", "by", "reason"] == heading.split()
    assert line.startswith("the task 'send'")
    assert line.endswith("UTC  ann  provider down")
    assert ((0, "", ""), []) == (resumed, await client.admin.paused())


async def test_as_json_a_pause_is_an_object(words: list[str], capsys: Output, client: Client) -> None:
    """Scripts read it: when pausing, when resuming, and in the list."""
    command = ["--limit", "tenants", "--key", "acme", "--json", *words]
    _, out, _ = await asyncq(capsys, "pause", *command)
    _, ended, _ = await asyncq(capsys, "resume", *command)

    pause = json.loads(out)
    assert ["key", "tenants", "acme", None] == [pause[name] for name in ("what", "name", "key", "reason")]
    assert out == ended


async def test_everything_is_paused_by_a_word_of_its_own(words: list[str], capsys: Output, client: Client) -> None:
    """Who forgets the name of the task must not stop everything."""
    await asyncq(capsys, "pause", "--all", *words)
    (pause,) = await client.admin.paused()
    code, _, _ = await asyncq(capsys, "resume", "--all", *words)

    assert ("everything", 0) == (str(pause), code)


async def test_resuming_what_is_not_paused_fails(words: list[str], capsys: Output, client: Client) -> None:
    """A name may be wrong."""
    expected = "asyncq: it is not paused; `asyncq pause` shows what is paused\n"

    assert (1, "", expected) == await asyncq(capsys, "resume", "--queue", "q", *words)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["pause", "--reason", "x"], "pause what? Give --task, --queue, --limit or --all"),
        (["resume"], "resume what? Give --task, --queue, --limit or --all; `asyncq pause` shows what is paused"),
        (["pause", "--all", "--task", "t"], "--all cannot be combined with a name: it means everything"),
        (["pause", "--task", "t", "--queue", "q"], "name one of them"),
        (["pause", "--key", "k"], "a key is one of a limit: give limit= too"),
        (["resume", "--task", ""], "task has 0 characters, expected 1 to 128"),
    ],
)
async def test_a_wrong_command_line_is_refused(
    words: list[str], capsys: Output, client: Client, command: list[str], said: str
) -> None:
    """The exit code is 2, and nothing is paused."""
    code, _, err = await asyncq(capsys, *command, *words)

    assert (2, True) == (code, said in err)
    assert [] == await client.admin.paused()

"""`asyncq jobs retry`, `cancel` and the like over all jobs that options choose: preview, question, change."""

import io
import json

import pytest

from asyncq import Client, JobSpec
from tests.cli.test_jobs import Output, jobs, words

__all__ = ["words"]

MATCH = "2 jobs match: 2 discarded\n"


@pytest.fixture
async def ids(client: Client) -> list[int]:
    """Four jobs, of which the first two are discarded."""
    made = [(await client.add_job("send", {"user": number})).id for number in range(4)]
    await client.admin.discard_jobs(made[:2], "TimeoutError: no answer")
    return made


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        """Return that it is a terminal."""
        return True


async def states(client: Client) -> list[str]:
    """The states of all jobs, in the order of their ids."""
    return [job.state async for job in client.admin.iter_jobs()]


async def test_a_dry_run_changes_nothing(words: list[str], client: Client, ids: list[int], capsys: Output) -> None:
    """It prints how many jobs match, of which states."""
    found = await jobs(capsys, "retry", *words, "--error", "timeout", "--dry-run")
    as_json = await jobs(capsys, "retry", *words, "--error", "timeout", "--dry-run", "--json")

    assert (0, "", MATCH) == found
    assert (0, {"matched": 2, "states": {"discarded": 2}, "changed": 0}) == (as_json[0], json.loads(as_json[1]))
    assert ["discarded"] * 2 + ["available"] * 2 == await states(client)


@pytest.mark.parametrize(
    ("command", "done", "after"),
    [
        (["retry"], "retried", ["available"] * 4),
        (["complete"], "completed", ["available"] * 2),
        (["rm"], "removed", ["available"] * 2),
        (["reschedule", "--in", "1h", "--attempts", "0"], "rescheduled", ["scheduled"] * 2 + ["available"] * 2),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
async def test_all_that_match_are_changed(
    words: list[str], client: Client, ids: list[int], capsys: Output, command: list[str], done: str, after: list[str]
) -> None:
    """With --yes nobody is asked."""
    code, out, err = await jobs(capsys, *command, *words, "--state", "discarded", "--yes")

    assert (0, f"2 jobs were {done}\n", MATCH) == (code, out, err)
    assert after == await states(client)


async def test_fail_is_another_name_of_discard(
    words: list[str], client: Client, ids: list[int], capsys: Output
) -> None:
    """The message is the last error."""
    options = ["--has", '{"user": 2}', "--message", "withdrawn", "--yes", "--json"]
    code, out, _ = await jobs(capsys, "fail", *words, *options)

    assert (0, {"matched": 1, "states": {"available": 1}, "changed": 1}) == (code, json.loads(out))
    assert "withdrawn" == (await client.get_job(ids[2])).last_error


@pytest.mark.parametrize(("answer", "changes"), [("y\n", True), ("n\n", False), ("", False)])
async def test_it_asks_on_a_terminal(
    words: list[str],
    client: Client,
    ids: list[int],
    capsys: Output,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    changes: bool,
) -> None:
    """Anything but yes is no."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    code, out, err = await jobs(capsys, "cancel", *words, "--task", "send")

    assert err.startswith("4 jobs match: 2 available, 2 discarded\ncancel them? [y/N] ")
    assert ((0, "2 jobs were cancelled\n") if changes else (2, "")) == (code, out)
    assert ["discarded"] * 2 + ["available"] * (0 if changes else 2) == await states(client)


async def test_without_a_terminal_it_needs_a_yes(
    words: list[str], client: Client, ids: list[int], capsys: Output
) -> None:
    """A script must say what it means."""
    code, out, err = await jobs(capsys, "cancel", *words, "--task", "send")

    assert (2, "") == (code, out)
    assert err.endswith("asyncq: nobody can be asked here: add --yes, or --dry-run\n")
    assert 4 == len(await states(client))


async def test_more_than_a_step_are_changed(words: list[str], client: Client, capsys: Output) -> None:
    """Each step is a transaction of its own."""
    await client.add_jobs([JobSpec(task="send")] * 2_500)
    code, out, err = await jobs(capsys, "cancel", *words, "--task", "send", "--yes")

    assert (0, "2,500 jobs were cancelled\n", "2,500 jobs match: 2,500 available\n") == (code, out, err)
    assert [] == await states(client)


async def test_nothing_is_asked_when_nothing_matches(words: list[str], capsys: Output) -> None:
    """The exit code is 0: there is nothing to do."""
    assert (0, "0 jobs were cancelled\n", "no job matches\n") == await jobs(capsys, "cancel", *words, "--task", "send")

"""`asyncq jobs list`, `counts` and `explain`: jobs can be looked at."""

import json
from functools import partial

import pytest
from anyio.to_thread import run_sync

from asyncq import Client
from asyncq.cli import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def words(dsn: str, schema: str) -> list[str]:
    """What leads a command to the test's schema."""
    return ["--dsn", dsn, "--schema", schema]


async def jobs(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run `asyncq jobs` in this process; returns the exit code and what it says."""
    code = await run_sync(partial(main, ["jobs", *command]))
    return code, *capsys.readouterr()


async def test_list_prints_a_table(words: list[str], client: Client, capsys: Output) -> None:
    """One line for each job, in the order of their ids."""
    first = await client.add_job("send", queue="mail")
    second = await client.add_job("rollup", priority=-1)

    code, out, err = await jobs(capsys, "list", *words)

    lines = [line.split() for line in out.splitlines()]
    assert (0, "") == (code, err)
    assert ["id", "state", "attempts", "run", "at", "queue", "task"] == lines[0]
    assert [[str(first.id), "available", "send"], [str(second.id), "available", "rollup"]] == [
        [line[0], line[1], line[-1]] for line in lines[1:]
    ]


async def test_list_filters_and_goes_from_page_to_page(words: list[str], client: Client, capsys: Output) -> None:
    """A full page says how to go on."""
    ids = [(await client.add_job("send", queue="mail", flags=["eu"])).id for _ in range(3)]
    await client.add_job("send")
    await client.admin.permanently_fail_jobs(ids)
    asked = ["--state", "discarded", "--task", "send", "--queue", "mail", "--flag", "eu", "--limit", "2", "--json"]

    code, out, _ = await jobs(capsys, "list", *words, *asked)
    _, text, hint = await jobs(capsys, "list", *words, *asked[:-1])
    _, rest, no_hint = await jobs(capsys, "list", *words, *asked, "--after", str(ids[1]))

    assert (0, ids[:2]) == (code, [json.loads(line)["id"] for line in out.splitlines()])
    assert ([ids[2]], "") == ([json.loads(line)["id"] for line in rest.splitlines()], no_hint)
    assert (3, f"there may be more: --after {ids[1]}\n") == (len(text.splitlines()), hint)


async def test_list_as_json_has_the_payload_as_it_is(words: list[str], client: Client, capsys: Output) -> None:
    """A script reads it with jq."""
    await client.add_job("send", {"to": "a"})

    _, out, _ = await jobs(capsys, "list", *words, "--json")

    assert {"to": "a"} == json.loads(out)["payload"]


async def test_list_all_prints_all_pages(words: list[str], client: Client, capsys: Output) -> None:
    """An export: one object a line, as they are read."""
    ids = [(await client.add_job("send")).id for _ in range(5)]

    _, out, err = await jobs(capsys, "list", *words, "--json", "--all", "--limit", "2", "--after", str(ids[0]))

    assert (ids[1:], "") == ([json.loads(line)["id"] for line in out.splitlines()], err)


async def test_an_empty_list_is_a_line_of_headings(words: list[str], capsys: Output) -> None:
    """And as JSON nothing at all."""
    assert 1 == len((await jobs(capsys, "list", *words))[1].splitlines())
    assert (0, "", "") == await jobs(capsys, "list", *words, "--json")


async def test_counts_prints_each_state(words: list[str], client: Client, capsys: Output) -> None:
    """Also those that no job is in."""
    await client.add_job("send")

    code, out, _ = await jobs(capsys, "counts", *words)
    _, document, _ = await jobs(capsys, "counts", *words, "--json", "--exact")

    assert (0, ["0", "1", "0", "0", "0", "0"]) == (code, [line.split()[1] for line in out.splitlines()])
    assert (1, []) == (json.loads(document)["available"], json.loads(document)["estimated"])


async def test_explain_prints_each_reason(words: list[str], client: Client, capsys: Output) -> None:
    """With its sentence."""
    added = await client.add_job("send")

    code, out, _ = await jobs(capsys, "explain", *words, str(added.id))
    _, document, _ = await jobs(capsys, "explain", *words, str(added.id), "--json")

    assert (0, "no_worker       no worker is alive\n") == (code, out)
    assert {
        "job_id": added.id,
        "runnable": False,
        "reasons": [{"reason": "no_worker", "detail": "no worker is alive"}],
    } == json.loads(document)


async def test_a_job_that_is_not_there_cannot_be_explained(words: list[str], capsys: Output) -> None:
    """Exit code 1, as with show."""
    code, out, err = await jobs(capsys, "explain", *words, "7")

    assert (1, "") == (code, out)
    assert err.startswith("asyncq: there is no job 7")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["list", "--state", "failed"], "asyncq jobs list: argument --state: invalid choice: 'failed'"),
        (["list", "--limit", "0"], "asyncq jobs list: argument --limit: '0' is no whole number of at least 1"),
        (["list", "--all"], "asyncq: --all prints a table of unknown width: it needs --json"),
        (["list", "--limit", "1001"], "asyncq: limit is 1001, expected 1 to 1000"),
        (["list", "--task", "\udcff"], r"asyncq: task '\udcff' holds a character that PostgreSQL cannot store as text"),
        (["explain"], "asyncq jobs explain: the following arguments are required: ID"),
        (["explain", "x"], "asyncq jobs explain: argument ID: 'x' is no whole number of at least 1"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "",
)
async def test_a_wrong_command_line_says_what_is_wrong(
    words: list[str], capsys: Output, command: list[str], expected: str
) -> None:
    """Exit code 2, and nothing was asked."""
    code, out, err = await jobs(capsys, *command[:1], *words, *command[1:])

    assert (2, "") == (code, out)
    assert expected in err

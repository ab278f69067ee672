"""`asyncq cron`: recurring items are listed, stored, changed, paused, resumed, removed and run."""

import json
from functools import partial

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, CronItem, CronItemNotFound, Worker, task
from asyncq.cli import main
from tests.cli.test_jobs import Output, words

__all__ = ["words"]

LINE = "0 8 * * mon-fri send_report ?tz=Europe/Berlin&overlap=skip {to: 'a'}"


async def cron(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run `asyncq cron` in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, ["cron", *command]))
    return code, *capsys.readouterr()


async def test_add_stores_a_line(words: list[str], client: Client, capsys: Output) -> None:
    """It prints the next run, so that users can check the expression."""
    code, out, err = await cron(capsys, "add", *words, LINE)
    status = await client.cron.get_item("send_report")

    assert (0, "") == (code, err)
    assert status.next_run is not None
    assert f"send_report: next run {status.next_run:%Y-%m-%d %H:%M} UTC\n" == out
    assert ("0 8 * * mon-fri", "Europe/Berlin", "skip", '{"to": "a"}') == (
        status.expression,
        status.tz,
        status.overlap,
        status.payload,
    )


@pytest.mark.parametrize(
    ("line", "more", "said"),
    [
        ("99 * * * * t", [], "the crontab cannot be used: line 1, column 1: minute is 99, expected 0 to 59"),
        ("@daily t", ["--dialect", "crontab"], "line 1, column 1"),
        ("* * * * * t ?tz=Mars", [], "'Mars' is not a time zone"),
        ("", [], "LINE has 0 items, expected one"),
        ("* * * * * a\n* * * * * b", [], "LINE has 2 items, expected one"),
    ],
    ids=["minute", "dialect", "zone", "none", "two"],
)
async def test_add_refuses_an_invalid_item(
    words: list[str], client: Client, capsys: Output, line: str, more: list[str], said: str
) -> None:
    """The message is that of a worker that reads the item in its crontab."""
    code, out, err = await cron(capsys, "add", *words, line, *more)

    assert (2, "", True) == (code, out, said in err)
    assert [] == await client.cron.list_items()


async def test_add_of_an_existing_item_fails(words: list[str], client: Client, capsys: Output) -> None:
    """Deployments that add items use --json and check the exit code."""
    await cron(capsys, "add", *words, LINE)
    code, _, err = await cron(capsys, "add", *words, LINE, "--json")

    assert (1, "CronItemConflict") == (code, json.loads(err)["error"]["type"])


async def test_ls_prints_a_table_that_says_why_an_item_adds_no_jobs(
    words: list[str], client: Client, capsys: Output, dsn: str, schema: str
) -> None:
    """The item is paused, invalid, or no worker adds its jobs."""
    ring = task(name="ring")(lambda: None)
    for name in ("a", "b"):
        await client.cron.add(CronItem("ring", "0 8 * * *", identifier=name))
    await client.cron.pause("b")
    await client.cron.add(CronItem("elsewhere", "@daily", identifier="c"))
    async with Worker(dsn, [ring], schema=schema, crontab=CronItem("ring", lambda now: False, identifier="d")).start():
        code, out, err = await cron(capsys, "ls", *words)
        _, text, _ = await cron(capsys, "ls", *words, "--json")

    lines = out.splitlines()
    assert (0, "") == (code, err)
    assert ["item", "source", "task", "expression", "tz", "last", "run", "next", "run"] == lines[0].split()
    assert ["a", "stored", "ring", "0", "8", "*", "*", "*", "UTC"] == lines[1].split()[:9]
    assert ("08:00", True, True, True) == (
        lines[1].split()[-1],
        "paused since 2" in lines[2],
        lines[3].endswith("no worker"),
        "a function" in lines[4],
    )
    documents = [json.loads(line) for line in text.splitlines()]
    assert ["a", "b", "c", "d"] == [document["identifier"] for document in documents]
    assert ({}, 0.0) == (documents[0]["payload"], documents[0]["fill"])


async def test_change_changes_the_given_fields(words: list[str], client: Client, capsys: Output) -> None:
    """Other fields stay; fields that are unset get their defaults."""
    await cron(capsys, "add", *words, LINE)
    given = ["--expression", "@hourly", "--payload", '{"to": "b"}', "--fill", "2d", "--flag", "x", "--flag", "y"]
    code, out, _ = await cron(capsys, "change", *words, "send_report", *given, "--unset", "tz", "--priority", "-3")
    status = await client.cron.get_item("send_report")

    assert (0, True) == (code, out.startswith("send_report: next run "))
    assert ("@hourly", '{"to": "b"}', 2, ("x", "y"), "UTC", -3, "skip") == (
        status.expression,
        status.payload,
        status.fill.days,
        status.flags,
        status.tz,
        status.priority,
        status.overlap,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "nothing to change"),
        (["--tz", "UTC", "--unset", "tz"], "tz is both given and unset"),
        (["--payload", "[1]"], "'[1]' is not a JSON object"),
        (["--payload", "{"], "'{' is not valid JSON"),
        (["--fill", "soon"], "'soon' is not a time phrase"),
        (["--expression", "60 * * * *"], "minute is 60, expected 0 to 59"),
        (["--unset", "match"], "invalid choice: 'match'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
async def test_change_refuses_an_invalid_item(
    words: list[str], client: Client, capsys: Output, given: list[str], said: str
) -> None:
    """Nothing is changed then."""
    before = await client.cron.add(CronItem("send_report", "0 8 * * *"))
    code, out, err = await cron(capsys, "change", *words, "send_report", *given)

    assert (2, "", True) == (code, out, said in err)
    assert before == await client.cron.get_item("send_report")


async def test_an_item_is_paused_resumed_and_removed(words: list[str], client: Client, capsys: Output) -> None:
    """Quietly; --json shows what it is then, or was."""
    await client.cron.add(CronItem("a", "@daily"))
    paused = await cron(capsys, "pause", *words, "a", "--json")
    resumed = await cron(capsys, "resume", *words, "a")
    removed = await cron(capsys, "rm", *words, "a")

    assert None is not json.loads(paused[1])["paused_at"]
    assert [(0, "", "")] * 2 == [resumed, removed]
    with pytest.raises(CronItemNotFound):
        await client.cron.get_item("a")


async def test_run_prints_the_id_of_the_job(words: list[str], client: Client, capsys: Output) -> None:
    """With overlap skip, it is the id of the job that waits already. `--json` reports that outcome."""
    await client.cron.add(CronItem("a", "@daily", overlap="skip"))
    code, out, _ = await cron(capsys, "run", *words, "a")
    _, again, _ = await cron(capsys, "run", *words, "a", "--json")
    job = await client.get_job(int(out))

    assert (0, "a") == (code, job.task)
    assert {"id": job.id, "outcome": "deduplicated"} == json.loads(again)


@pytest.mark.parametrize("command", ["pause", "resume", "rm", "run", "next"])
async def test_a_missing_item_ends_with_exit_code_1(words: list[str], capsys: Output, command: str) -> None:
    """Scripts check it."""
    code, out, err = await cron(capsys, command, *words, "nobody")

    assert (1, "", True) == (code, out, err.startswith("asyncq: there is no recurring item 'nobody'"))


async def test_next_of_an_expression_needs_no_database(capsys: Output) -> None:
    """Users can try an expression in its time zone."""
    code, out, err = await cron(capsys, "next", "--expression", "30 8 29 2 *", "--tz", "Europe/Berlin", "--count", "3")

    assert (0, "", 3) == (code, err, len(out.splitlines()))
    assert all(line[5:] == "02-29 08:30+01:00" for line in out.splitlines())


async def test_next_lists_the_slots_of_items_in_order(
    words: list[str], client: Client, capsys: Output, db: asyncpg.Connection, schema: str
) -> None:
    """It shows the slots of all items, or of one. Paused items are left out, unless they are asked for."""
    await client.cron.add(CronItem("a", "0 0 1 1 *", tz="Asia/Tokyo"))
    await client.cron.add(CronItem("b", "0 0 2 1 *"))
    await client.cron.add(CronItem("c", "0 0 3 1 *"))
    await client.cron.pause("c")
    await db.execute(f"select from {schema}.add_cron_item('d', 't', '99 * * * *')")

    _, out, _ = await cron(capsys, "next", *words, "--count", "3")
    _, one, hint = await cron(capsys, "next", *words, "c", "--count", "1")
    code, nothing, why = await cron(capsys, "next", *words, "d")

    assert ["01-01 00:00+09:00  a", "01-02 00:00+00:00  b", "01-01 00:00+09:00  a"] == [
        line[5:] for line in out.splitlines()
    ]
    assert ("01-03 00:00+00:00\n", True) == (one[5:], hint.startswith("c is paused since "))
    assert (1, "", "d has no next run: column 1: minute is 99, expected 0 to 59\n") == (code, nothing, why)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "--expression", "@daily"], "give either an ITEM or --expression, not both"),
        (["--tz", "UTC"], "--tz and --dialect belong to --expression"),
        (["--count", "1001"], "--count is 1001, expected at most 1000"),
    ],
    ids=["both", "zone", "count"],
)
async def test_next_refuses_invalid_arguments(capsys: Output, given: list[str], said: str) -> None:
    """It is refused before the database is asked."""
    code, _, err = await cron(capsys, "next", *given)

    assert (2, True) == (code, said in err)

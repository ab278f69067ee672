"""`asyncq jobs ls`, `counts` and `explain` show jobs."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, task
from asyncq.cli import main
from asyncq.testing import run_due
from tests.support.cli import asyncq, environment
from tests.support.jobs import add_many, complete, fetch
from tests.support.session import KeptConnections, Session, session
from tests.support.waiting import wait_until

Output = pytest.CaptureFixture[str]


@pytest.fixture
def words(dsn: str, schema: str) -> list[str]:
    """The options that point a command at the test's schema."""
    return ["--dsn", dsn, "--schema", schema]


@pytest.fixture
async def sql(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Session]:
    """A session on the test's schema."""
    async with kept_connections.session(schema) as opened:
        yield opened


async def jobs(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run `asyncq jobs` in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, ["jobs", *command]))
    return code, *capsys.readouterr()


async def test_list_prints_a_table(words: list[str], client: Client, capsys: Output) -> None:
    """One line for each job, the newest first."""
    first = await client.add_job("send", queue="mail")
    second = await client.add_job("rollup", priority=-1)

    code, out, err = await jobs(capsys, "ls", *words)

    lines = [line.split() for line in out.splitlines()]
    assert (0, "") == (code, err)
    assert ["id", "state", "attempts", "run", "at", "queue", "task"] == lines[0]
    assert [[str(second.id), "available", "rollup"], [str(first.id), "available", "send"]] == [
        [line[0], line[1], line[-1]] for line in lines[1:]
    ]


async def test_list_and_show_print_the_progress_of_running_jobs(
    words: list[str], dsn: str, schema: str, client: Client, capsys: Output
) -> None:
    """A column if a job has reported any; no line of a terminal is controlled by a note."""
    ids = [(await client.add_job("send")).id for _ in range(4)]
    reports = [(30, 120, "page\n3"), (2.5, None, None), (0, 0, "")]
    async with session(dsn, schema) as sql:
        claims = await fetch(sql)
        for claim, (done, total, note) in zip(claims, reports, strict=False):
            report = {"job_id": claim["id"], "locked_by": 1, "lock_token": claim["lock_token"]}
            await sql.run("write_progress", json.dumps([{**report, "done": done, "total": total, "note": note}]))
    _, out, _ = await jobs(capsys, "ls", *words, "--state", "active", "--oldest")
    _, shown, _ = await jobs(capsys, "show", *words, str(ids[0]))
    _, document, _ = await jobs(capsys, "show", *words, str(ids[0]), "--json")
    async with session(dsn, schema) as sql:
        await complete(sql, claims)

    assert ["task  progress", "send  30 of 120 (25%), page\\n3", "send  2.5", "send  0 of 0", "send"] == [
        line[line.rindex("  ", 0, line.rindex("  ")) :].strip() if count < 4 else line.split()[-1]
        for count, line in enumerate(out.splitlines())
    ]
    assert "progress:   30 of 120 (25%), page\\n3, at 20" in shown
    assert (30, "page\n3") == (json.loads(document)["progress"]["done"], json.loads(document)["progress"]["note"])


async def test_list_filters_and_goes_from_page_to_page(words: list[str], client: Client, capsys: Output) -> None:
    """A full page prints how to continue."""
    ids = [(await client.add_job("send", queue="mail", flags=["eu"])).id for _ in range(3)]
    await client.add_job("send")
    await client.admin.discard_jobs(ids)
    asked = ["--state", "discarded", "--task", "send", "--queue", "mail", "--flag", "eu", "--limit", "2", "--json"]

    code, out, _ = await jobs(capsys, "ls", *words, *asked)
    _, text, hint = await jobs(capsys, "ls", *words, *asked[:-1])
    _, rest, no_hint = await jobs(capsys, "ls", *words, *asked, "--from", str(ids[1]))

    assert (0, ids[:0:-1]) == (code, [json.loads(line)["id"] for line in out.splitlines()])
    assert ([ids[0]], "") == ([json.loads(line)["id"] for line in rest.splitlines()], no_hint)
    assert (3, f"there may be more: --from {ids[1]}\n") == (len(text.splitlines()), hint)


async def test_list_finds_by_payload_error_key_and_time(words: list[str], client: Client, capsys: Output) -> None:
    """Each narrows the list; a span of time ends now."""
    seven = (await client.add_job("send", {"user": 7}, job_key="k")).id
    other = (await client.add_job("send", {"user": 8})).id
    await client.admin.discard_jobs([other], "TimeoutError: no answer")

    for options, wanted in [
        (["--has", '{"user": 7}'], [seven]),
        (["--error", "timeout"], [other]),
        (["--key", "k"], [seven]),
        (["--added-after", "1h"], [other, seven]),
        (["--added-after", "2100-01-01T00:00:00Z"], []),
        (["--due-before", "1h"], []),
        (["--due-before", "2100-01-01T00:00:00Z", "--has", '{"user": 8}'], [other]),
    ]:
        code, out, err = await jobs(capsys, "ls", *words, *options, "--json")
        assert (0, wanted, "") == (code, [json.loads(line)["id"] for line in out.splitlines()], err), options


async def test_list_looks_until_a_page_is_full(words: list[str], client: Client, sql: Session, capsys: Output) -> None:
    """A job behind 20,000 others that do not match is found."""
    rare = (await client.add_job("rare")).id
    await add_many(sql, 20_500)

    _, out, _ = await jobs(capsys, "ls", *words, "--task", "rare", "--json")

    assert [rare] == [json.loads(line)["id"] for line in out.splitlines()]


async def test_list_as_json_has_the_payload_as_it_is(words: list[str], client: Client, capsys: Output) -> None:
    """A script reads it with jq."""
    await client.add_job("send", {"to": "a"})

    _, out, _ = await jobs(capsys, "ls", *words, "--json")

    assert {"to": "a"} == json.loads(out)["payload"]


async def test_list_all_prints_all_pages(words: list[str], client: Client, capsys: Output) -> None:
    """An export: one object a line, as they are read."""
    ids = [(await client.add_job("send")).id for _ in range(5)]

    _, out, err = await jobs(capsys, "ls", *words, "--json", "--all", "--oldest", "--limit", "2", "--from", str(ids[0]))

    assert (ids[1:], "") == ([json.loads(line)["id"] for line in out.splitlines()], err)


async def test_a_list_of_the_oldest_may_begin_behind_0(words: list[str], client: Client, capsys: Output) -> None:
    """It is the start of a script that reads all pages."""
    added = await client.add_job("send")

    code, out, err = await jobs(capsys, "ls", *words, "--json", "--oldest", "--from", "0")

    assert (0, added.id, "") == (code, json.loads(out)["id"], err)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
async def test_characters_outside_the_output_encoding_are_written_as_escapes(
    words: list[str], client: Client, encoding: str
) -> None:
    """The escape is one of JSON. A traceback would hide all other jobs."""
    await client.add_job("send", queue="日本 \U0001f600")

    table = await asyncq("jobs", "ls", *words, PYTHONIOENCODING=encoding)
    document = await asyncq("jobs", "ls", *words, "--json", PYTHONIOENCODING=encoding)

    assert (0, "") == (table.returncode, table.stderr)
    assert r"\u65e5\u672c \ud83d\ude00" in table.stdout
    assert "日本 \U0001f600" == json.loads(document.stdout)["queue"]


async def test_an_error_of_the_output_is_one_line(words: list[str]) -> None:
    """A full disk is reported in one line, and by the exit code."""
    with open("/dev/full", "wb") as full:  # noqa: ASYNC230
        done = await run_sync(
            partial(
                subprocess.run,
                [sys.executable, "-m", "asyncq", "jobs", "counts", *words],
                env=environment(),
                stdout=full,
                stderr=subprocess.PIPE,
            )
        )

    assert (1, b"asyncq: the output cannot be written: No space left on device\n") == (done.returncode, done.stderr)


async def test_an_empty_list_is_a_line_of_headings(words: list[str], capsys: Output) -> None:
    """As JSON nothing is printed."""
    assert 1 == len((await jobs(capsys, "ls", *words))[1].splitlines())
    assert (0, "", "") == await jobs(capsys, "ls", *words, "--json")


async def test_counts_prints_each_state(words: list[str], client: Client, capsys: Output) -> None:
    """States without jobs are included."""
    await client.add_job("send")

    code, out, _ = await jobs(capsys, "counts", *words)
    _, document, _ = await jobs(capsys, "counts", *words, "--json", "--exact")

    assert (0, ["0", "1", "0", "0", "0", "0", "0"]) == (code, [line.split()[1] for line in out.splitlines()])
    assert (1, []) == (json.loads(document)["available"], json.loads(document)["estimated"])


async def test_counts_prints_how_many_available_jobs_are_paused(
    words: list[str], client: Client, capsys: Output
) -> None:
    """In a line below theirs; without paused jobs there is none."""
    await client.add_job("send")
    await client.add_job("other")
    await client.admin.pause(task="send")
    _, out, _ = await jobs(capsys, "counts", *words)
    _, document, _ = await jobs(capsys, "counts", *words, "--json")

    assert [["available", "2"], ["paused", "1"]] == [line.split() for line in out.splitlines()][1:3]
    assert (2, 1) == (json.loads(document)["available"], json.loads(document)["paused"])


async def test_explain_prints_each_reason(words: list[str], client: Client, capsys: Output) -> None:
    """Each reason has a sentence."""
    added = await client.add_job("send")

    code, out, _ = await jobs(capsys, "explain", *words, str(added.id))
    _, document, _ = await jobs(capsys, "explain", *words, str(added.id), "--json")

    assert (0, "no_worker       no worker is alive\n") == (code, out)
    assert {
        "job_id": added.id,
        "runnable": False,
        "reasons": [{"reason": "no_worker", "detail": "no worker is alive"}],
    } == json.loads(document)


async def test_a_missing_job_cannot_be_explained(words: list[str], capsys: Output) -> None:
    """The exit code is 1, as for show."""
    code, out, err = await jobs(capsys, "explain", *words, "7")

    assert (1, "") == (code, out)
    assert err.startswith("asyncq: there is no job 7")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["ls", "--state", "failed"], "asyncq jobs ls: argument --state: invalid choice: 'failed'"),
        (["ls", "--state", "failed"], "; did you mean 'discarded'?"),
        (["ls", "--state", "activ"], "; did you mean 'active'?"),
        (["lst"], "; did you mean 'ls'?"),
        (
            ["ls", "--stat", "active"],
            "asyncq jobs ls: unrecognized arguments: --stat active; did you mean '--state'?",
        ),
        (["ls", "--limit", "0"], "asyncq jobs ls: argument --limit: '0' is not a whole number of at least 1"),
        (["ls", "--from", "-1"], "asyncq jobs ls: argument --from: '-1' is not a whole number of at least 0"),
        (["ls", "--from", "x"], "asyncq jobs ls: argument --from: 'x' is not a whole number of at least 0"),
        (["ls", "--all", "--json", "--limit", "1001"], '"message": "limit is 1001, expected 1 to 1000"'),
        (["ls", "--has", "{user: 7}"], "asyncq jobs ls: argument --has: '{user: 7}' is no JSON"),
        (["ls", "--all"], "asyncq: --all prints a table of unknown width: it needs --json"),
        (["ls", "--limit", "1001"], "asyncq: limit is 1001, expected 1 to 1000"),
        (["ls", "--task", "\udcff"], r"asyncq: task '\udcff' holds a character that PostgreSQL cannot store as text"),
        (["explain"], "asyncq jobs explain: the following arguments are required: ID"),
        (["explain", "x"], "asyncq jobs explain: argument ID: 'x' is not a whole number of at least 1"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "",
)
async def test_a_wrong_command_line_names_the_fault(
    words: list[str], capsys: Output, command: list[str], expected: str
) -> None:
    """The exit code is 2, and no query is sent."""
    code, out, err = await jobs(capsys, *command[:1], *words, *command[1:])

    assert (2, "") == (code, out)
    assert expected in err


@task(max_attempts=1)
async def fail() -> None:
    """Fails with an error of two lines."""
    raise OSError("no disk\x1b\nstate: fine")


@pytest.mark.parametrize("has_ended", [False, True])
async def test_show_prints_the_failed_attempts(
    words: list[str], client: Client, dsn: str, schema: str, capsys: Output, has_ended: bool
) -> None:
    """Those of a job that has ended too; nothing else is known of it."""
    added = await client.add_job(fail)
    await run_due(dsn, [fail], schema=schema)
    (error,) = await client.admin.errors(added.id)
    if has_ended:
        await client.admin.complete_jobs([added.id])

    code, out, err = await jobs(capsys, "show", str(added.id), *words)
    lines = out.splitlines()

    assert (0, "") == (code, err)
    assert [f"id:         {added.id}", f"state:      {'ended' if has_ended else 'discarded'}"] == [
        line for line in lines if line.startswith(("id:", "state:"))
    ]
    assert ["failed attempts:", ["number", "kind", "ended", "at", "after", "worker", "error"]] == [
        lines[-3],
        lines[-2].split(),
    ]
    assert lines[-1].split()[:2] == ["1", "failed"]
    assert lines[-1].endswith(f"{error.worker_id:<6}  OSError: no disk\\x1b")

    code, out, err = await jobs(capsys, "show", str(added.id), *words, "--json")
    shown = json.loads(out)

    assert (0, "", None if has_ended else "discarded") == (code, err, shown["state"])
    assert [msgspec.to_builtins(error)] == shown["errors"]


@task(keep="1 hour", timeout="30 s")
async def double(number: int) -> list[int]:
    """Has a result that is kept."""
    return [2 * number]


async def test_show_prints_an_ended_job_that_is_kept(
    words: list[str], client: Client, dsn: str, schema: str, capsys: Output
) -> None:
    """With its times, its worker and its result."""
    added = await client.add_job(double, 21, deadline="1 h", timeout="5 s")
    waiting = await jobs(capsys, "show", str(added.id), *words)
    await run_due(dsn, [double], schema=schema)
    job = await client.get_job(added.id)
    shown = await jobs(capsys, "show", str(added.id), *words)
    _, as_json, _ = await jobs(capsys, "show", str(added.id), *words, "--json")

    for line in (
        "state:      completed",
        "attempts:   1 of 25",
        "result:     [42]",
        f"ran on:     worker {job.worker_id}",
    ):
        assert line in shown[1].splitlines()
    assert {"started at:", "ended at:", "kept until:"} <= {" ".join(line.split()[:2]) for line in shown[1].splitlines()}
    assert ("completed", [42], {"number": 21}, []) == tuple(
        json.loads(as_json)[name] for name in ("state", "result", "payload", "errors")
    )
    assert "timeout:    5 s" in waiting[1].splitlines()
    assert any(line.startswith("deadline:   20") for line in waiting[1].splitlines())


async def test_list_prints_ended_jobs(words: list[str], client: Client, dsn: str, schema: str, capsys: Output) -> None:
    """The newest first; the filters are those of Python."""
    first, second = [await client.add_job(double, number) for number in (1, 2)]
    failed = await client.add_job(fail)
    await run_due(dsn, [double, fail], schema=schema)

    code, out, err = await jobs(capsys, "ls", "--ended", *words, "--limit", "2")
    lines = [line.split() for line in out.splitlines()]
    _, completed, _ = await jobs(
        capsys, "ls", "--ended", *words, "--state", "completed", "--task", "double", "--since", "1h", "--json"
    )
    _, rest, _ = await jobs(capsys, "ls", "--ended", *words, "--before", str(second.id))
    _, later, _ = await jobs(capsys, "ls", "--ended", *words, "--since", "2040-01-01T00:00:00Z")

    assert (0, f"there may be more: --before {second.id}\n") == (code, err)
    assert ["id", "state", "attempts", "ended", "at", "took", "worker", "task", "error"] == lines[0]
    assert [[str(failed.id), "discarded"], [str(second.id), "completed"]] == [line[:2] for line in lines[1:]]
    assert [second.id, first.id] == [json.loads(line)["id"] for line in completed.splitlines()]
    assert [str(first.id)] == [line.split()[0] for line in rest.splitlines()[1:]]
    assert 1 == len(later.splitlines())


@pytest.mark.parametrize(
    "options",
    [["--ended", "--queue", "q"], ["--ended", "--has", "7"], ["--since", "1h"], ["--state", "completed"]],
    ids=" ".join,
)
async def test_options_of_the_other_list_are_refused(words: list[str], capsys: Output, options: list[str]) -> None:
    """They would have no effect."""
    code, out, err = await jobs(capsys, "ls", *words, *options)

    assert (2, "") == (code, out)
    assert options[-2] in err


async def test_show_of_an_ended_job_without_errors_is_not_found(
    words: list[str], client: Client, capsys: Output
) -> None:
    """Scripts read the exit code."""
    added = await client.add_job("send")
    await client.admin.complete_jobs([added.id])

    code, out, err = await jobs(capsys, "show", str(added.id), *words)

    assert (1, "") == (code, out)
    assert f"there is no job {added.id}" in err


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
async def test_wait_prints_the_end_of_a_job(
    dsn: str, schema: str, words: list[str], client: Client, capsys: Output, fails: bool, code: int
) -> None:
    """A script goes on with the result, or stops."""

    @task(max_attempts=1)
    async def count() -> int:
        if fails:
            raise ValueError("no rows")
        return 7

    added = await client.add_job(count)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(jobs(capsys, "wait", *words, str(added.id), "--timeout", "20s"))
        async with session(dsn, schema) as sql:
            is_watched = "select exists (select from asyncq._jobs where extras ? 'watchers')"
            await wait_until(lambda: sql.value(is_watched), description="the command to wait")
        await run_due(dsn, [count], schema=schema)
        found, out, _ = await waiting
    ended = json.loads(out)

    assert (code, None if fails else 7) == (found, ended["result"])
    assert ("discarded" if fails else "completed") == ended["state"]


async def test_wait_ends_after_its_timeout(words: list[str], client: Client, capsys: Output) -> None:
    """The job goes on."""
    added = await client.add_job("count")

    assert (1, "", f"asyncq: job {added.id} has not ended within 0.01 s; it goes on\n") == await jobs(
        capsys, "wait", *words, str(added.id), "--timeout", "10ms"
    )

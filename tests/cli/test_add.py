"""`asyncq add` and `asyncq jobs show`: a job is stored as it was written, and can be shown."""

import argparse
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Self

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client
from asyncq.cli import main
from asyncq.cli.parsing import instant
from asyncq.domain.sentence import printable
from tests.support.cli import environment, error_of

Output = pytest.CaptureFixture[str]


@pytest.fixture
def words(dsn: str, schema: str) -> list[str]:
    """The options that point a command at the test's schema."""
    return ["--dsn", dsn, "--schema", schema]


async def add(capsys: Output, *command: str) -> int:
    """Add a job in this process; returns its id."""
    code = await run_sync(partial(main, ["add", *command]))

    out, err = capsys.readouterr()
    assert (0, "") == (code, err)
    return int(out)


async def test_add_prints_the_id_of_a_job_with_every_option(
    words: list[str], db: asyncpg.Connection, client: Client, capsys: Output
) -> None:
    """Every option of a job can be given on the command line."""
    options = ["--queue", "mail", "--run-at", "2030-01-31T04:00:00+02:00", "--max-attempts", "3", "--priority", "-5"]

    job_id = await add(
        capsys, *words, "send", '{"to": "a"}', *options, "--flag", "b", "--flag", "a", "--meta", '{"by": "me"}'
    )

    job = await client.get_job(job_id)
    assert ("send", '{"to": "a"}', "mail", 3, -5) == (job.task, job.payload, job.queue, job.max_attempts, job.priority)
    assert (datetime(2030, 1, 31, 2, tzinfo=UTC), ("a", "b"), {"by": "me"}) == (job.run_at, job.flags, job.meta)


@pytest.mark.parametrize(
    ("options", "extras"),
    [
        (["--timeout", "2m"], {"timeout_s": 120}),
        (["--timeout", "30s", "--soft-timeout", "1.5s"], {"timeout_s": 30, "soft_s": 1.5}),
        (["--soft-timeout", "5s"], {"soft_s": 5}),
        (["--keep", "1h"], {"keep_s": 3600}),
        (["--keep", "never"], {"keep_s": 0}),
    ],
    ids=" ".join,
)
async def test_add_limits_the_time_of_a_job(
    words: list[str], db: asyncpg.Connection, schema: str, capsys: Output, options: list[str], extras: dict[str, float]
) -> None:
    """The limits are those of Python."""
    job_id = await add(capsys, *words, "send", *options)

    assert extras == json.loads(await db.fetchval(f"select extras::text from {schema}._jobs where id = $1", job_id))


async def test_add_lets_a_job_wait_for_others(
    words: list[str], db: asyncpg.Connection, schema: str, capsys: Output
) -> None:
    """`jobs show` says so."""
    first, second = await add(capsys, *words, "send"), await add(capsys, *words, "send")
    job_id = await add(
        capsys, *words, "send", "--after", str(first), "--after", str(second), "--if-failed", "run", "--in", "1h"
    )
    await run_sync(partial(main, ["jobs", "show", *words, str(job_id)]))
    shown = capsys.readouterr().out

    assert "state:      pending" in shown.splitlines()
    assert [first, second] == [
        row["job_id"] for row in await db.fetch(f"select job_id from {schema}._waits order by job_id")
    ]


@pytest.mark.parametrize("expires", ["90s", "2040-01-31T04:00:00Z", "20400131T040000Z"])
async def test_add_takes_an_expiry_as_a_duration_or_a_time(
    words: list[str], db: asyncpg.Connection, schema: str, capsys: Output, expires: str
) -> None:
    """It is the time by which the job has to start."""
    job_id = await add(capsys, *words, "send", "--expires", expires)
    found = await db.fetchrow(f"select created_at, expires_at from {schema}._jobs where id = $1", job_id)

    expected = found["created_at"] + timedelta(seconds=90) if expires == "90s" else datetime(2040, 1, 31, 4, tzinfo=UTC)
    assert expected == found["expires_at"]


async def test_add_refuses_a_soft_limit_that_is_not_the_shorter_one(words: list[str], capsys: Output) -> None:
    """Nothing was sent, and the exit code is that of a wrong command line."""
    code = await run_sync(partial(main, ["add", *words, "send", "--timeout", "5s", "--soft-timeout", "5s"]))

    assert 2 == code
    assert "expected less than the hard one" in capsys.readouterr().err


async def test_add_with_a_key_changes_the_waiting_job(words: list[str], client: Client, capsys: Output) -> None:
    """The command behaves as Python does: the waiting job gets the new payload."""
    first = await add(capsys, *words, "send", '{"n": 1}', "--job-key", "k")
    second = await add(capsys, *words, "send", '{"n": 2}', "--job-key", "k", "--job-key-mode", "preserve_run_at")

    assert (first, '{"n": 2}') == (second, (await client.get_job(first)).payload)


@pytest.mark.parametrize(
    "options",
    [
        ["--unique", '{"keys": ["args"], "on_conflict": "ignore"}'],
        ["--singleton"],
        ["--singleton", "--subject", "shop 7"],
        ["--singleton", "--rerun"],
        ["--idempotency-key", "order-7"],
    ],
    ids=" ".join,
)
async def test_add_reports_that_a_job_existed_before(words: list[str], capsys: Output, options: list[str]) -> None:
    """With --json the outcome is printed. Without it only the id is, so that the command can be repeated."""
    first = await add(capsys, *words, "send", *options)

    assert 0 == await run_sync(partial(main, ["add", *words, "send", *options, "--json"]))

    document = json.loads(capsys.readouterr().out)
    assert (first, "deduplicated") == (document["existing_id"], document["outcome"])


async def test_add_of_a_job_that_conflicts_fails_unless_it_is_forced(words: list[str], capsys: Output) -> None:
    """The message names the other job."""
    unique = ["send", "--unique", '{"keys": ["args"]}']
    first = await add(capsys, *words, *unique)

    assert 1 == await run_sync(partial(main, ["add", *words, *unique]))

    assert f"asyncq: job {first}, which is available, prevents another one like it\n" == capsys.readouterr().err
    assert first != await add(capsys, *words, *unique, "--force")


async def test_add_with_only_a_task_takes_the_defaults(words: list[str], client: Client, capsys: Output) -> None:
    """The shortest command works."""
    job = await client.get_job(await add(capsys, *words, "send"))

    assert ("{}", None, 25, 0, ()) == (job.payload, job.queue, job.max_attempts, job.priority, job.flags)


async def test_in_is_a_delay_from_now(words: list[str], client: Client, capsys: Output) -> None:
    """Users need not compute a time of day."""
    before = datetime.now(UTC)

    job = await client.get_job(await add(capsys, *words, "send", "--in", "1h30m"))

    assert timedelta(0) <= job.run_at - before - timedelta(hours=1.5) < timedelta(minutes=1)


class Tomorrow(datetime):
    """The clock of a machine that is a day ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """A day later than it is."""
        return super().now(tz) + timedelta(days=1)


async def test_in_goes_by_the_servers_clock(
    words: list[str], client: Client, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are due by the server's clock. The clock of this machine may be wrong."""
    monkeypatch.setattr("asyncq.cli.add.datetime", Tomorrow, raising=False)
    before = await client.admin.now()

    job = await client.get_job(await add(capsys, *words, "send", "--in", "1h30m"))

    assert timedelta(0) <= job.run_at - before - timedelta(hours=1.5) < timedelta(minutes=1)


def test_the_suggestions_for_a_time_without_a_zone_are_valid() -> None:
    """A date with a Z behind it would be refused too."""
    for text in ("2030-01-01", "2030-01-31T04:00:00", "20300131T0900", "2030-W01-1"):
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            instant(text)
        utc, offset = str(refused.value).partition("; write ")[2].split(" for UTC, or ")

        assert datetime.fromisoformat(text).replace(tzinfo=UTC) == instant(utc)
        assert timedelta(hours=2) == instant(offset).utcoffset()


async def test_a_payload_is_kept_as_it_is_written(words: list[str], client: Client, capsys: Output) -> None:
    """Numbers beyond 64 bits and the order of members survive."""
    payload = '{"z": 12345678901234567890123456789, "a": 1.10, "é": "\\u00e9"}'

    job = await client.get_job(await add(capsys, *words, "send", payload))

    assert payload == job.payload


async def test_a_dash_reads_the_payload_from_the_standard_input(
    words: list[str], client: Client, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command line is limited to some hundred kilobytes; a payload is not."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"[1, 2]\n")))

    job = await client.get_job(await add(capsys, *words, "send", "-"))

    assert "[1, 2]" == job.payload.strip()


async def test_add_with_json_prints_one_document(words: list[str], capsys: Output) -> None:
    """A script reads the id from it."""
    code = await run_sync(partial(main, ["add", *words, "send", "--json"]))

    document = json.loads(capsys.readouterr().out)
    assert (0, ["id", "outcome", "existing_id", "existing_state"]) == (code, list(document))
    assert ("added", None) == (document["outcome"], document["existing_id"])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["send", "{"], "asyncq: the payload is not valid JSON: Input data was truncated"),
        (["send", "{'a': 1}"], "asyncq: the payload is not valid JSON: "),
        (["send", "NaN"], "asyncq: the payload is not valid JSON: "),
        (["send", '{"a": "\udcff"}'], "asyncq: the payload is not valid UTF-8"),
        (["send", "{}", "--meta", "[1]"], "asyncq: --meta must be a JSON object, got [1]"),
        (["send", "--unique", '{"key": ["args"]}'], "asyncq: unique has no member 'key'; there are keys, "),
        (["send", "--force"], "asyncq: force lifts a policy: it needs unique or singleton"),
        (["send", "--job-key", ""], "asyncq: job_key is empty, at least 1 character is needed"),
        (["send", "{}", "--meta", "x"], "asyncq: --meta is not valid JSON: "),
        (["send", "--run-at", "2030-01-31T04:00:00"], "asyncq add: argument --run-at: '2030-01-31T04:00:00' has no"),
        (
            ["send", "--run-at", "soon"],
            "asyncq add: argument --run-at: 'soon' is not a time; write 2030-01-31T09:00:00Z",
        ),
        (["send", "--in", "-5m"], "asyncq add: argument --in: expected one argument"),
        (["send", "--in", "5 m"], "asyncq add: argument --in: '5 m' is not a time span"),
        (["send", "--in", "99999999h"], "asyncq add: argument --in: '99999999h' is longer than 100 years"),
        (["send", "--in", "5m", "--run-at", "2030-01-31T04:00:00Z"], "asyncq add: argument --run-at: not allowed with"),
        (["send", "--priority", "40000"], "asyncq: priority is 40000, expected -32768 to 32767"),
        (["send", "--priority", "high"], "asyncq add: argument --priority: invalid int value: 'high'"),
        (["send", "--max-attempts", "0"], "asyncq: max_attempts is 0, expected 1 to 32767"),
        (["send", "--queue", "q" * 129], "asyncq: queue is 129 characters long, at most 128 are allowed"),
        (["a" * 129], "asyncq: identifier is 129 characters long, at most 128 are allowed"),
        ([""], "asyncq: identifier '' is empty or holds a control character"),
        (["send", f'"{"x" * 1048576}"'], "asyncq: payload is 1048578 bytes of JSON, at most 1048576 are allowed"),
    ],
)
def test_a_job_that_breaks_a_rule_ends_with_2_before_the_database_is_asked(
    command: list[str], expected: str, capsys: Output
) -> None:
    """The message has the value and the limit, and nothing is added."""
    code = main(["add", *command, "--dsn", "postgresql://127.0.0.1:1/nowhere"])

    assert (2, expected) == (code, capsys.readouterr().err.splitlines()[-1][: len(expected)])


async def test_show_prints_all_fields_of_a_job(words: list[str], client: Client, capsys: Output) -> None:
    """The state comes first, and the error without control characters of a terminal."""
    added = await client.add_job("send", {"to": "a"}, flags=["slow"], run_at=datetime(2030, 1, 1, tzinfo=UTC))

    code = await run_sync(partial(main, ["jobs", "show", str(added.id), *words]))

    lines = capsys.readouterr().out.splitlines()
    assert 0 == code
    assert [f"id:         {added.id}", "task:       send", "state:      scheduled"] == lines[:3]
    assert {"attempts:   0 of 25", "flags:      slow", 'payload:    {"to":"a"}'} <= set(lines)


async def test_show_with_json_prints_every_field_with_the_payload_in_it(
    words: list[str], client: Client, capsys: Output
) -> None:
    """`jq .payload.to` works, and the keys are always the same."""
    added = await client.add_job("send", {"to": "a"}, meta={"by": "me"})

    await run_sync(partial(main, ["jobs", "show", str(added.id), *words, "--json"]))

    document = json.loads(capsys.readouterr().out)
    expected = {"id", "task", "queue", "state", "attempts", "max_attempts", "last_error", "run_at", "flags"}
    assert (added.id, "available", {"to": "a"}, {"by": "me"}) == tuple(
        document[key] for key in ("id", "state", "payload", "meta")
    )
    assert expected <= set(document)


async def test_a_missing_job_ends_with_exit_code_1(words: list[str], capsys: Output) -> None:
    """Not found is neither a wrong command nor an unreachable database."""
    code = await run_sync(partial(main, ["jobs", "show", "4711", *words, "--json"]))

    error = error_of(capsys.readouterr().err)
    assert (1, "JobNotFound") == (code, error["type"])


async def test_a_missing_schema_says_to_run_migrate(dsn: str, capsys: Output) -> None:
    """It is the first error of many users."""
    code = await run_sync(partial(main, ["add", "send", "--dsn", dsn, "--schema", "no_such_schema"]))

    said = "asyncq: the schema 'no_such_schema' is not installed; run `asyncq migrate --schema no_such_schema`\n"
    assert (3, said) == (code, capsys.readouterr().err)


def test_a_closed_pipe_causes_no_traceback() -> None:
    """`asyncq jobs show 1 | head -1` may close the pipe early, which is no error."""
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [sys.executable, "-m", "asyncq", "--version"], env=environment(), stdout=writing, stderr=subprocess.PIPE
    )

    os.close(writing)
    assert (1, b"") == (done.returncode, done.stderr)


def test_control_characters_are_printed_as_escapes() -> None:
    """A job's error may contain control characters from untrusted input."""
    assert "a\\x1b[2Jb\\x9b\\nc\\té" == printable("a\x1b[2Jb\x9b\nc\té")


async def test_no_name_or_error_can_pass_for_another_field(
    words: list[str], schema: str, db: asyncpg.Connection, capsys: Output
) -> None:
    """A caller of add_job in SQL must not be able to forge fields. Further lines of an error are indented."""
    job = await db.fetchval(f"""
        select id from {schema}.add_job(
          e't\nstate:      active', e'{{"a":\n1}}', e'q\n9  active', flags => array[e'f\nid: 7'])""")
    await db.fetchval(f"select {schema}.permanently_fail_jobs(array[$1::bigint], e'first\nstate:\tno\x1b')", job)

    await run_sync(partial(main, ["jobs", "show", str(job), *words]))
    shown = capsys.readouterr().out.splitlines()
    await run_sync(partial(main, ["jobs", "ls", *words]))
    listed = capsys.readouterr().out.splitlines()

    assert {"task:       t\\nstate:      active", "queue:      q\\n9  active", "flags:      f\\nid: 7"} <= {*shown}
    assert ["last error: first", "            state:\tno\\x1b"] == shown[-2:]
    assert ["state:      discarded"] == [line for line in shown if line.startswith("state:")]
    assert (2, True) == (len(listed), listed[1].endswith("q\\n9  active  t\\nstate:      active"))

"""`asyncq` itself: help, version, exit codes, and which database a command uses."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from asyncq.cli import main
from asyncq.server import start
from tests.support.cli import asyncq, environment, error_of, write

UNREACHABLE = "postgresql://app:secret@127.0.0.1:1/shop"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment that leads to no database, and an empty current folder."""
    kept = environment()
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_without_a_command_the_help_is_printed_on_stderr_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A script that forgot the command must see it fail."""
    code = main([])

    out, err = capsys.readouterr()
    assert (2, "") == (code, out)
    assert "examples:" in err


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["worker"],
        ["dev"],
        ["config"],
        ["migrate"],
        ["roles"],
        ["add"],
        ["jobs", "show"],
        ["cron", "add"],
        ["workers", "ls"],
    ],
    ids=" ".join,
)
def test_help_teaches_with_examples_environment_and_exit_codes(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help replaces a look into the documentation, and fits into 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])

    shown = capsys.readouterr().out
    headings = [line for line in shown.splitlines() if line in ("examples:", "environment:", "exit codes:")]
    assert (0, ["examples:", "environment:", "exit codes:"]) == (caught.value.code, headings)
    assert [] == [line for line in shown.splitlines() if len(line) > 80]


def test_version_prints_name_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Bug reports begin with it."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert 0 == caught.value.code
    assert capsys.readouterr().out.startswith("asyncq ")


def test_the_command_line_starts_without_uvloop_and_the_launcher_of_servers() -> None:
    """Commands import such modules only when they need them, so help and errors appear quickly."""
    script = (
        "import sys; from asyncq.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(sorted({'uvloop', 'asyncq.server', 'asyncq.loading'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)

    assert "[]" == done.stdout.splitlines()[-1], done.stderr


COMMANDS = [
    ["worker", "--tasks", "tasks", "--once"],
    ["migrate"],
    ["migrate", "--check"],
    ["roles", "--worker", "w", "--enqueuer", "e", "--apply"],
    ["add", "hello"],
    ["jobs", "show", "1"],
]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("command", [command for command in COMMANDS if command[0] != "worker"], ids=" ".join)
def test_without_a_database_a_command_refuses_and_ignores_that_of_the_tests(
    dsn: str, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command must never use an unintended database, and never start a server."""
    monkeypatch.setenv("ASYNCQ_TEST_DATABASE_URL", dsn)

    code = main(command)

    said = "which database? Give --dsn postgresql://user@host/name, or set DATABASE_URL"
    assert (2, f"asyncq: {said}\n") == (code, capsys.readouterr().err)


async def test_a_worker_without_a_database_refuses_and_ignores_that_of_the_tests(dsn: str, tmp_path: Path) -> None:
    """The other commands ignore the variable of the tests too."""
    write(tmp_path, {"tasks/hello.py": "from asyncq import task\n\n@task\ndef hello(): ...\n"})

    done = await asyncq("worker", "--once", cwd=tmp_path, ASYNCQ_TEST_DATABASE_URL=dsn)

    assert (2, True) == (done.returncode, done.stderr.startswith("asyncq: which database?"))


async def test_database_url_is_used_whatever_the_database_of_the_tests_is(
    dsn: str, schema: str, tmp_path: Path
) -> None:
    """The two variables never mix."""
    write(tmp_path, {"tasks/hello.py": "from asyncq import task\n\n@task\ndef hello(): ...\n"})
    variables = {"DATABASE_URL": dsn, "ASYNCQ_TEST_DATABASE_URL": UNREACHABLE}
    commands = [["add", "hello"], ["migrate", "--check"], ["worker", "--once"]]

    done = [await asyncq(*command, "--schema", schema, cwd=tmp_path, **variables) for command in commands]

    assert [0, 0, 0] == [one.returncode for one in done], [one.stderr for one in done]


@pytest.mark.usefixtures("bare")
def test_the_option_overrides_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explicit option wins. The message names the address that was tried, and the variable."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://other.invalid/x")

    code = main(["add", "hello", "--dsn", UNREACHABLE])

    said = capsys.readouterr().err
    assert (3, True) == (
        code,
        said.startswith("asyncq: PostgreSQL at 127.0.0.1:1, database 'shop', as 'app' cannot be"),
    )
    assert (1, False) == (said.count("\n"), "secret" in said)


@pytest.mark.usefixtures("bare")
def test_the_variables_of_libpq_are_the_last_resort(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """psql and the worker in one shell reach the same database."""
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")

    code = main(["migrate"])

    assert (3, True) == (code, capsys.readouterr().err.startswith("asyncq: PostgreSQL at 127.0.0.1 cannot be reached"))


@pytest.mark.usefixtures("bare")
def test_an_empty_dsn_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--dsn "$TYPO"` must not fall back to another database."""
    monkeypatch.setenv("DATABASE_URL", UNREACHABLE)

    code = main(["migrate", "--dsn", ""])

    assert (2, "asyncq: --dsn is empty: is a variable not set?\n") == (code, capsys.readouterr().err)


@pytest.mark.usefixtures("bare")
def test_debug_shows_the_traceback_before_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """By default users do not see our code."""
    code = main(["migrate", "--dsn", UNREACHABLE, "--log-level", "debug"])

    lines = capsys.readouterr().err.splitlines()
    assert (3, "Traceback (most recent call last):") == (code, lines[0])
    assert lines[-1].startswith("asyncq: PostgreSQL at 127.0.0.1:1")


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["frobnicate"], "asyncq: argument COMMAND: invalid choice: 'frobnicate'"),
        (["migrate", "--chek"], "asyncq migrate: unrecognized arguments: --chek; did you mean '--check'?"),
        (
            ["worker", "-c", "50"],
            "asyncq worker: unrecognized arguments: -c 50; did you mean --concurrency or --crontab or --codec?",
        ),
        (["worker", "x"], "asyncq worker: unrecognized arguments: x"),
        (["add"], "asyncq add: the following arguments are required: TASK"),
        (["jobs"], "asyncq: what about jobs?"),
        (["cron"], "asyncq: what about recurring items?"),
        (["jobs", "show", "x"], "asyncq jobs show: argument ID: 'x' is not a whole number of at least 1"),
        (["worker"], "asyncq: which tasks? There is no folder ./tasks"),
        (["worker", "--tasks", ""], "asyncq: --tasks is empty"),
        (["worker", "--poll", "soon"], "asyncq worker: argument --poll: 'soon' is not a time span; write 90s"),
        (["migrate", "--schema", "No", "--dsn", "x"], "asyncq: schema 'No' cannot be used"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2_and_a_sentence(
    command: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line says what is wrong."""
    code = main(command)

    assert (2, True) == (code, capsys.readouterr().err.splitlines()[-1].startswith(expected))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--dsn", UNREACHABLE, "migrate"], "--dsn belongs after the command: asyncq COMMAND --dsn ..."),
        ([f"--dsn={UNREACHABLE}", "migrate"], "--dsn belongs after the command: asyncq COMMAND --dsn ..."),
        ([UNREACHABLE, "migrate"], "--dsn belongs after the command: asyncq COMMAND --dsn ..."),
        (["jobs", "--schema", "jobs", "ls"], "--schema belongs after the command: asyncq jobs COMMAND --schema ..."),
        (["cron", "--json", "ls"], "--json belongs after the command: asyncq cron COMMAND --json ..."),
    ],
)
def test_an_option_before_its_command_gets_a_hint_to_its_place(
    command: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its value would be treated as the command and printed: a DSN with its password, in the log of a deployment."""
    code = main(command)

    err = capsys.readouterr().err
    assert (2, True, False) == (code, expected in err, "secret" in err)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        (["add", "x", "{", "--json"], 2, ("Usage", None, None)),
        (["add", "x", "--queue", "default", "--json"], 2, ("InvalidJob", "GWBQN", "queue")),
        (["migrate", "--json"], 3, ("StoreUnavailable", None, None)),
        (["add", "--json"], 2, ("Usage", None, None)),
    ],
)
def test_with_json_an_error_is_one_document_on_stderr(
    command: list[str], code: int, expected: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A program reads the type and the code, and shows the message."""
    found = main([*command, "--dsn", UNREACHABLE])

    out, err = capsys.readouterr()
    error = error_of(err)
    assert (code, "", ["type", "message", "code", "field"]) == (found, out, list(error))
    assert expected == (error["type"], error["code"], error["field"])


@pytest.mark.usefixtures("bare")
def test_ctrl_c_ends_quietly_with_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells use this exit code for SIGINT."""

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncq.cli.migrate.run", interrupted)

    code = main(["migrate"])

    assert (130, ("", "")) == (code, capsys.readouterr())


@pytest.mark.usefixtures("bare")
def test_the_error_for_a_wrong_password_omits_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The message distinguishes a refused login from an unreachable server, and keeps the password out of logs."""
    with start() as server:
        asyncio.run(_ask_for_passwords(server.dsn))
        dsn = server.dsn.replace("//postgres@", "//mallory:guessed@")

        code = main(["add", "hello", "--dsn", dsn, "--json"])

    error = error_of(capsys.readouterr().err)
    assert (3, "AccessDenied", "28P01") == (code, error["type"], error["code"])
    assert "refused the connection" in error["message"]
    assert "guessed" not in json.dumps(error)


def _prepend(path: Path, line: str) -> None:
    path.write_text(line + path.read_text())


async def _ask_for_passwords(dsn: str) -> None:
    """Let a server ask one role for its password."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"create role mallory login password '{secrets.token_hex(8)}'")
    _prepend(Path(await connection.fetchval("show hba_file")), "local all mallory scram-sha-256\n")
    await connection.execute("select pg_reload_conf()")
    await connection.close()

"""Settings of the command line: the option, then the environment, then pyproject.toml; `asyncq config` shows them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from asyncq import Client
from asyncq.cli import main
from tests.cli.test_reload import SAY
from tests.cli.test_worker import StartWorker, worker
from tests.support.cli import appears, asyncq, environment, write

__all__ = ["worker"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A current folder two below that of pyproject.toml, and an environment without settings."""
    for name in set(os.environ) - set(environment()) | {name for name in os.environ if name.startswith("ASYNCQ_")}:
        monkeypatch.delenv(name)
    folder = tmp_path / "app" / "src"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def settings(tmp_path: Path, *lines: str) -> Path:
    """Write pyproject.toml."""
    text = "\n".join(('[project]\nname = "app"\n[tool.asyncq]', *lines))
    return write(tmp_path, {"pyproject.toml": text}) / "pyproject.toml"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The output of `asyncq config`."""
    code = main(["config", "--json", *words])
    out, err = capsys.readouterr()
    assert (0, "") == (code, err)
    return json.loads(out)


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The sentence by which a command is refused."""
    code = main([*words])
    out, err = capsys.readouterr()
    assert (2, "") == (code, out)
    return err


def test_the_option_comes_before_the_variable_and_that_before_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The nearer a value is to the call, the more it is meant."""
    path = str(settings(tmp_path, 'schema = "of_file"', 'log-level = "warning"', "concurrency = 7"))
    assert {"value": "of_file", "source": path} == shown(capsys)["schema"]

    monkeypatch.setenv("ASYNCQ_SCHEMA", "of_variable")
    assert {"value": "of_variable", "source": "ASYNCQ_SCHEMA"} == shown(capsys)["schema"]

    found = shown(capsys, "--schema", "of_option")
    assert {"value": "of_option", "source": "--schema"} == found["schema"]
    assert {"value": "warning", "source": path} == found["log-level"]
    assert {"value": 7, "source": path} == found["concurrency"]
    assert {"value": None, "source": "default"} == found["poll"]


def test_the_nearest_file_counts_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A project inside of another one has settings of its own."""
    settings(tmp_path, "concurrency = 7")
    near = settings(tmp_path / "app", 'queues = ["mail", "reports:2"]', "dashboard-read-only = true")

    found = shown(capsys)

    assert {"value": "mail,reports:2", "source": str(near)} == found["queues"]
    assert {"value": True, "source": str(near)} == found["dashboard-read-only"]
    assert "default" == found["concurrency"]["source"]


def test_variables_have_the_types_of_their_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text is all that the environment has. An empty variable is often one that was not set."""
    for name, text in {"FORBID": "slow,big", "POLL": "1m", "MIGRATE": "yes", "NO_LISTEN": "0", "GRACE": ""}.items():
        monkeypatch.setenv(f"ASYNCQ_{name}", text)

    found = shown(capsys)

    assert [["slow", "big"], "60s", True, False, None] == [
        found[name]["value"] for name in ("forbid", "poll", "migrate", "no-listen", "grace")
    ]
    assert "default" == found["grace"]["source"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("CONCURRENCY", "many", "ASYNCQ_CONCURRENCY: 'many' is not a whole number of at least 1"),
        ("LOG_FORMAT", "xml", "ASYNCQ_LOG_FORMAT: 'xml' is none of text, json"),
        ("MIGRATE", "perhaps", "ASYNCQ_MIGRATE: 'perhaps' is neither true nor false"),
    ],
)
def test_a_wrong_variable_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: str
) -> None:
    """The reader of the error did not type the option."""
    monkeypatch.setenv(f"ASYNCQ_{name}", text)

    assert expected in refusal(capsys, "worker")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('concurency = "7"', "[tool.asyncq] has an unknown name 'concurency'; did you mean 'concurrency'?"),
        ("once = true", "[tool.asyncq] has an unknown name 'once'"),
        ("concurrency = 0", "concurrency: '0' is not a whole number of at least 1"),
        ("concurrency = true", "concurrency: True cannot be its value"),
        ("concurrency =", "pyproject.toml cannot be read: "),
        ('dsn = "postgresql://app:hush@db/app"', "dsn has a password"),
        ('dsn = "postgresql+asyncpg://app:hu/sh@db/app"', "dsn has a password"),
        ('dsn = "postgresql://db/app?user=app&password=hush"', "dsn has a password"),
        ('dsn = "postgresql://db/app?p%61ssword=hush"', "dsn has a password"),
        ("dsn = \"host=db password='hush'\"", "dsn has a password"),
        ('listen-dsn = "postgresql://app:hush@db/app"', "listen-dsn has a password"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, expected: str
) -> None:
    """A wrong name would have no effect, silently. Passwords in the file get into the history of the project."""
    path = settings(tmp_path, line)

    said = refusal(capsys, "worker")

    assert (True, True, False) == (str(path) in said, expected in said, "hush" in said or "hu/sh" in said)


def test_passwords_are_not_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is pasted into reports."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:hush@db/app?sslpassword=hush")
    monkeypatch.setenv("ASYNCQ_LISTEN_DSN", "host=db password='hu sh' user=app")

    found = shown(capsys)

    assert {"value": "postgresql://app:***@db/app?sslpassword=***", "source": "DATABASE_URL"} == found["dsn"]
    assert "host=db password=*** user=app" == found["listen-dsn"]["value"]


def test_a_database_of_the_environment_comes_before_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A deployment sets DATABASE_URL, and has the file of the developers."""
    settings(tmp_path, 'dsn = "postgresql:///of_developers"')
    assert "postgresql:///of_developers" == shown(capsys)["dsn"]["value"]

    monkeypatch.setenv("DATABASE_URL", "postgresql:///shop")
    assert {"value": "postgresql:///shop", "source": "DATABASE_URL"} == shown(capsys)["dsn"]

    monkeypatch.setenv("ASYNCQ_DSN", "postgresql:///jobs")
    assert "postgresql:///jobs" == shown(capsys)["dsn"]["value"]


async def test_a_worker_takes_its_settings_from_both(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """They are no mere display."""
    settings(tmp_path, 'tasks = "handlers"', "concurrency = 3")
    write(tmp_path, {"handlers/say.py": SAY.format("said")})
    await client.add_job("say")

    with worker(ASYNCQ_POLL="7s") as process:
        said = await process.says("concurrency 3, poll 7 s")
        await appears(tmp_path / "said")
        process.signal()
        await process.end()

    assert said


async def test_a_worker_object_refuses_options_and_says_where_they_are(tmp_path: Path) -> None:
    """Its options are set in the code, and nobody typed this one."""
    path = settings(tmp_path, "concurrency = 3")
    code = "from asyncq import Worker, task\n@task\ndef f(): ...\nworker = Worker('postgresql://', [f])\n"
    write(tmp_path, {"app.py": code})

    done = await asyncq("worker", "--tasks", "app:worker", cwd=tmp_path)

    assert (2, True) == (done.returncode, f"--concurrency ({path}): app:worker is a Worker object" in done.stderr)


def test_the_text_has_a_line_for_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """People read it."""
    assert 0 == main(["config"])

    assert ["log-level", "info", "default"] in [line.split() for line in capsys.readouterr().out.splitlines()]

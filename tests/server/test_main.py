"""`python -m asyncq.server`, with which a shell script gets a server for one command."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncq.server import Server, __main__, start
from asyncq.server.__main__ import main


def test_run_gives_the_command_a_dsn_and_returns_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """CI runs programs that read DATABASE_URL, and must see when they fail."""
    script = 'echo "$DATABASE_URL"; echo "$ASYNCQ_TEST_DATABASE_URL"; exit 7'

    code = main(["run", "--setting", "shared_buffers=1MB", "--", "sh", "-c", script])

    first, second = capfd.readouterr().out.splitlines()
    assert (7, first) == (code, second)
    assert first.startswith("postgresql://postgres@/postgres?host=")
    assert not Path(first.split("host=")[1].split("&")[0]).exists()


def test_a_command_that_was_killed_has_the_exit_code_of_a_shell() -> None:
    """make and CI systems know 128 + signal."""
    code = main(["run", "--", "sh", "-c", "kill -9 $$"])

    assert code == 128 + 9


def test_an_unknown_command_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """A misspelt command must not cause a traceback."""
    code = main(["run", "--", "no-such-command"])

    assert (127, "asyncq.server: cannot run 'no-such-command': No such file or directory\n") == (
        code,
        capfd.readouterr().err,
    )


def test_a_folder_without_postgresql_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The reason is one line on stderr, and the exit code is 1."""
    code = main(["run", "--bin", str(tmp_path), "--", "true"])

    assert (1, True) == (code, capfd.readouterr().err.startswith("asyncq.server: The folder given is "))


def test_list_prints_a_line_for_each_server(capfd: pytest.CaptureFixture[str]) -> None:
    """tools/x.py reads these lines to run the tests on each server."""
    code = main(["list"])

    lines = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert code == 0
    assert all(version.startswith(major) for major, version, _, _ in lines)
    assert all(os.access(Path(bindir, "initdb"), os.X_OK) for *_, bindir in lines)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_ctrl_c_around_the_start_of_the_server_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], moment: str
) -> None:
    """The exit code is 130, as after any Ctrl-C, and the server has stopped."""
    folders: list[Path] = []

    @contextmanager
    def interrupted() -> Iterator[Server]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if moment == "before":
            signal.raise_signal(signal.SIGINT)
        with start() as server:
            folders.append(server.folder)
            signal.raise_signal(signal.SIGINT)
            yield server

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(__main__, "start", lambda **_: interrupted())
    try:
        code = main(["run", "--", "true"])
    finally:
        signal.signal(signal.SIGINT, before)

    assert (130, ("", "")) == (code, capfd.readouterr())
    assert not any(folder.exists() for folder in folders)


def test_a_ctrl_c_while_the_command_runs_is_the_commands_business(capfd: pytest.CaptureFixture[str]) -> None:
    """The command decides how to end; the signal is not ignored there, unlike in this process."""
    code = main(["run", "--", "sh", "-c", "kill -INT $PPID; kill -INT $$; sleep 60"])

    assert (130, ("", "")) == (code, capfd.readouterr())

"""tools/x.py: how a program ended that it ran."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST
from tools import x

CHECKOUT = Path(__file__).parents[2]


def dies_of(number: int) -> list[str | Path]:
    """A program that a signal ends."""
    return [sys.executable, "-c", f"import os; os.kill(os.getpid(), {number})"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=str)
def test_the_signal_that_ended_a_program_is_named(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    """make would report the low byte of a negative number, `Error 241`."""
    code = x.run(dies_of(number))

    assert 128 + number == code
    assert f"{number.name} ended `{sys.executable} -c" in capfd.readouterr().out


def test_a_signal_without_a_name_is_shown_by_its_number(capfd: pytest.CaptureFixture[str]) -> None:
    """A real-time signal between the first and the last one has none."""
    number = signal.SIGRTMIN + 1

    assert 128 + number == x.run(dies_of(number))
    assert f"signal {number} ended" in capfd.readouterr().out


@pytest.mark.parametrize("code", [0, 1, 130])
def test_other_exit_codes_are_passed_on(code: int) -> None:
    """The exit code of pytest names the kind of failure."""
    assert code == x.run([sys.executable, "-c", f"raise SystemExit({code})"])


def test_the_exit_code_of_the_command_is_that_of_a_shell() -> None:
    """The whole way: the code of the process itself."""
    words = f"import sys; from tools import x; sys.exit(x.run({dies_of(signal.SIGTERM)!r}))"
    done = subprocess.run([sys.executable, "-c", words], cwd=CHECKOUT, check=False, capture_output=True)

    assert 128 + signal.SIGTERM == done.returncode


def test_a_check_that_a_signal_ended_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """Its output may be empty."""
    passed = x.run_quietly("a check", dies_of(signal.SIGKILL))

    assert (False, True) == (passed, "FAILED by SIGKILL" in capfd.readouterr().out)


def test_programs_keep_the_modules_that_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may set the variable; each process of the tests would compile all of asyncq again."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    assert "PYTHONDONTWRITEBYTECODE" not in x.environment()


def test_the_files_that_run_once_or_first_exist() -> None:
    """A file that was renamed would run on both servers, or late."""
    assert [] == [path for path in (*x.once(), *LONGEST) if not (x.ROOT / path).exists()]


@pytest.mark.parametrize(
    ("kept", "servers", "said"),
    [
        (None, ("old", "new"), "about 8 minutes, on two quiet cores"),
        (None, ("old",), "about 5 minutes, on two quiet cores"),
        ("broken", ("old", "new"), "about 8 minutes, on two quiet cores"),
        ('{"old": 60}', ("old", "new"), "about 4 minutes, on two quiet cores"),
        ('{"new": 60}', ("old", "new"), "about 6 minutes, on two quiet cores"),
        ('{"new": 60, "old": 100.5}', ("old", "new"), "about 3 minutes, as last time"),
        ('{"new": 1, "old": 1}', ("old", "new"), "about 1 minute, as last time"),
    ],
)
def test_a_run_of_all_tests_prints_its_expected_time(
    kept: str | None, servers: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last run on the same server says it best; without one a figure that was measured is given."""
    monkeypatch.setattr(x, "TIMES", tmp_path / "times.json")
    if kept is not None:
        x.TIMES.write_text(kept)

    assert f"this takes {said}" in x.estimate([(title, {}) for title in servers])


@pytest.mark.parametrize(
    ("code", "is_whole", "is_kept"), [(0, True, True), (1, True, True), (2, True, False), (0, False, False)]
)
def test_the_time_of_a_whole_run_is_kept(
    code: int, is_whole: bool, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run, or one of some tests only, does not predict the next one."""
    monkeypatch.setattr(x, "TIMES", tmp_path / "times.json")
    monkeypatch.setattr(x, "run", lambda command, **variables: code)

    x.pytest([("new", {})], [], is_whole=is_whole)

    assert is_kept == ("new" in x.read_times())

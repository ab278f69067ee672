"""`make soak` runs tests in steps, and prints how to repeat each failure."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import soak
from tests.crash.soak import CHECKOUT, Step, steps

SEED = 4242
ALL = [*steps(SEED, 60.0, is_first=True)]


@pytest.mark.crash
@pytest.mark.parametrize("step", ALL, ids=lambda step: step.name.split()[0].strip(","))
def test_a_step_finds_its_tests(step: Step) -> None:
    """An argument that pytest refuses, or a file that was moved, would end a soak at its start."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *step.words]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)

    assert 0 == found.returncode, found.stdout + found.stderr


def test_the_command_that_repeats_a_seeded_step_names_the_seed() -> None:
    """A failure without its seed could not be repeated."""
    assert [True] * 4 == [str(SEED) in step.replay for step in ALL[:4]]


def test_a_soak_that_found_something_fails_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After half an hour nobody scrolls back."""

    def fails(step: Step, summary: Path, others: object) -> bool:
        summary.write_text('{"jobs": 5, "runs": 6, "violations": 0, "hits": {"kill": 2}}\n')
        return "chaos" not in step.name

    monkeypatch.setattr(soak, "passes", fails)
    code = soak.soak(0.001, [])
    said = capsys.readouterr().out

    assert 1 == code
    assert "again: ASYNCQ_CHAOS_SEED=" in said.splitlines()[-1]
    assert "hits: kill" in said


def test_a_violation_that_was_seen_fails_a_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The soak fails even if the test itself passes."""

    def sees(step: Step, summary: Path, others: object) -> bool:
        summary.write_text('{"jobs": 5, "runs": 6, "violations": 1, "hits": {}}\n')
        return True

    monkeypatch.setattr(soak, "passes", sees)

    assert 1 == soak.soak(0.001, [])

"""Which Python is measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.suite import python

PLAIN, OPTIMIZED = "/here/plain", "/here/optimized"


def no_fetch(what: str, command: Sequence[str], folder: Path) -> bool:
    """Nothing can be fetched."""
    return False


@pytest.mark.parametrize(
    ("built", "measured", "said"),
    [
        ({PLAIN: "plain", OPTIMIZED: "optimized"}, OPTIMIZED, ""),
        ({PLAIN: "plain", str(python.PROGRAM): "optimized"}, str(python.PROGRAM), ""),
        ({PLAIN: "plain"}, PLAIN, "appear slower"),
        ({}, sys.executable, "is here: measuring with"),
    ],
)
def test_an_optimized_one_is_measured_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: dict[str, str], measured: str, said: str
) -> None:
    """Version managers compile Python without optimization by default, so queues in Python would look slow."""
    lines: list[str] = []
    monkeypatch.setattr(python, "FOLDER", tmp_path / "python")  # The one that is there would go before a new one comes.
    monkeypatch.setattr(python, "candidates", lambda: [PLAIN, OPTIMIZED])
    monkeypatch.setattr(python, "how_built", lambda name: built.get(name, ""))

    chosen = python.measured_python(no_fetch, lines.append)

    assert (Path(measured), bool(said)) == (chosen, bool(lines))
    assert said in "".join(lines)


@pytest.mark.parametrize("name", ["/bin/false", "/nowhere/python3.13"])
def test_a_command_that_is_no_python_is_not_measured(name: str) -> None:
    """A shim of a version manager ends in an error."""
    assert "" == python.how_built(name)

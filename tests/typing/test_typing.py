"""Both type checkers refuse exactly the lines of this folder that are marked as errors.

A wrong payload is an error in the editor, not a failed job. Without this test an overload that accepts everything would
go unnoticed.
"""

import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CHECKOUT = FOLDER.parents[1]

Place = tuple[str, int]


def marked() -> set[Place]:
    """The lines that a comment marks as errors."""
    found: set[Place] = set()
    for path in FOLDER.glob("*.py"):
        with path.open("rb") as file:
            comments = (token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT)
            found |= {(path.name, token.start[0]) for token in comments if token.string.startswith("# error: ")}
    return found


def seen_by_mypy() -> set[Place]:
    """The lines where mypy reports an error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(FOLDER)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    found = re.findall(r"^(.*?):(\d+): error: ", done.stdout, re.MULTILINE)
    assert done.returncode < 2, done.stdout + done.stderr
    return {(place(Path(path)), int(line)) for path, line in found}


def seen_by_pyright() -> set[Place]:
    """The lines where pyright reports an error, with the strict settings of the project."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(FOLDER)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode < 2, done.stdout + done.stderr
    reported = json.loads(done.stdout)["generalDiagnostics"]
    return {(place(Path(item["file"])), item["range"]["start"]["line"] + 1) for item in reported}


def place(path: Path) -> str:
    """The name of a file of this folder; the path of another one, which must not have an error at all."""
    return path.name if path.resolve().parent == FOLDER else str(path)


def missing() -> list[str]:
    """Which tools of the dependency group `lint` are not installed."""
    installed = {str(found.metadata["Name"]).lower() for found in distributions()}
    return sorted({"asyncpg-stubs", "mypy", "pyright"} - installed)


@pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())} (dependency group lint)")
@pytest.mark.parametrize("seen_by", [seen_by_mypy, seen_by_pyright], ids=["mypy", "pyright"])
@pytest.mark.timeout(180)
def test_the_checker_reports_the_marked_lines_and_no_others(seen_by: Callable[[], set[Place]]) -> None:
    """Users have one or the other. Both must find the wrong payload, and neither may refuse the right one."""
    expected, actual = marked(), seen_by()

    assert (set(), set()) == (expected - actual, actual - expected)


def test_lines_are_marked() -> None:
    """Otherwise the tests above would check no line."""
    expected = {
        "adding.py", "around.py", "connections.py", "handlers.py", "recurring.py", "results.py", "without_a_loop.py",
        "workflows.py",
    }  # fmt: skip

    assert expected == {name for name, _ in marked()}

"""Rules for modules: allowed imports, who may start tasks, who may read clocks."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import nodes

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "asyncq"

TASK_STARTERS = {
    "asyncio.create_task",
    "asyncio.ensure_future",
    "get_event_loop.create_task",
    "get_running_loop.create_task",
    "loop.create_task",
}
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns"}
FACES = ("cli", "web", "contrib", "__main__.py")


def modules(*folders: str) -> list[Path]:
    """The modules of the package, or of some of its folders, as paths within it."""
    tops = [PACKAGE / folder for folder in folders] if folders else [PACKAGE]
    return sorted(path.relative_to(PACKAGE) for top in tops for path in top.rglob("*.py"))


def names_used(source: str) -> Iterator[str]:
    """Yield each `owner.attribute` in the source by its last two words, and each `from owner import attribute`."""
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Attribute):
            yield ".".join(ast.unparse(node).replace("()", "").split(".")[-2:])


def using(forbidden: set[str], paths: list[Path]) -> dict[Path, set[str]]:
    """The modules that use forbidden names, with the names."""
    found = {path: forbidden & set(names_used((PACKAGE / path).read_text())) for path in paths}
    return {path: names for path, names in found.items() if names}


def test_imports_go_downwards_only() -> None:
    """The contracts are in pyproject.toml. A module outside of all layers breaks them too."""
    program = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run([program, "--no-cache", "--no-logo"], cwd=CHECKOUT, capture_output=True, text=True)

    assert 0 == done.returncode, done.stdout + done.stderr


def imported(source: str) -> Iterator[str | None]:
    """Yield each module that is imported, or imported from."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_tasks_are_started_in_task_groups_only() -> None:
    """A task without a group outlives its part, and its error is lost. executor.py is the one exception."""
    assert {} == using(TASK_STARTERS, [path for path in modules() if path != Path("engine/run/executor.py")])


def test_the_time_comes_from_a_clock_or_an_argument() -> None:
    """Otherwise a test would have to wait for it."""
    assert {} == using(CLOCKS, [path for path in modules("domain", "engine") if path.name != "clock.py"])


def test_no_module_imports_from_the_package_itself() -> None:
    """`asyncq/__init__.py` imports everything, so that an import from it would be a cycle."""
    inner = [path for path in modules() if path.parts[0] not in FACES]

    assert [] == [path for path in inner if "asyncq" in imported((PACKAGE / path).read_text())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import asyncio\nasyncio.create_task(x())", ["asyncio.create_task"]),
        ("import asyncio\nasyncio.get_running_loop().create_task(x())", ["get_running_loop.create_task"]),
        ("from asyncio import ensure_future", ["asyncio.ensure_future"]),
        ("self.loop.create_task(x())", ["loop.create_task"]),
        ("group.create_task(x())", []),
    ],
)
def test_the_scan_for_tasks_sees_them(source: str, expected: list[str]) -> None:
    """A rule whose check sees nothing is no rule."""
    assert expected == sorted(TASK_STARTERS & set(names_used(source)))

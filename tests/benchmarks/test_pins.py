"""The pinned versions can be installed again in a year, from any registry."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.peers.registry import ALL

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REQUIREMENTS = sorted(BENCHMARKS.glob("requirements-*.txt"))


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_an_exact_version(path: Path) -> None:
    """Another release is another queue."""
    lines = path.read_text().split()

    assert [] == [line for line in lines if not re.fullmatch(r"[\w\[\],-]+==[\d.]+", line)]


def test_the_lock_of_node_names_no_registry() -> None:
    """The lock file works with the registry that the machine is configured for."""
    lock = json.loads((BENCHMARKS / "node" / "package-lock.json").read_text())

    assert [] == [name for name, package in lock["packages"].items() if "resolved" in package]


def test_every_program_of_a_queue_is_there() -> None:
    """An entry that names a missing program would fail after half an hour of benchmarking."""
    places = [
        BENCHMARKS / "node" / peer.program
        if peer.home == "node"
        else BENCHMARKS.parent / f"{peer.program.replace('.', '/')}.py"
        for peer in ALL.values()
    ]

    assert [] == [place for place in places if not place.exists()]


def test_every_environment_of_a_queue_has_its_requirements() -> None:
    """asyncq is installed from the checkout, Node's packages from their lock; the profiler has one too."""
    homes = {peer.home for peer in ALL.values()} - {"asyncq", "node"} | {"profile"}

    assert {f"requirements-{home}.txt" for home in homes} == {path.name for path in REQUIREMENTS}

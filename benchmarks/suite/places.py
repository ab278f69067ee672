"""Where things are: the checkout, and its cache, which git ignores and `make clean` removes."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".bench"
RESULTS = ROOT / "benchmarks" / "results"
LOGS = CACHE / "logs"
NODE = ROOT / "benchmarks" / "node"


class Unfit(Exception):
    """A run that does not count: a job was lost or ran twice, something took too long, a program ended."""

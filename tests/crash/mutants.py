"""Planted bugs: each is found by the tests that are named with it. `python -m tests.crash.mutants [NAME ...]` shows it.

A suite that finds nothing may be blind. The checkout is copied, one bug is planted in the copy, its tests have to fail
there; without it they pass in `make test` and `make test-crash`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.crash.changed import CHANGED
from tests.crash.planting import CHECKOUT, Changed, Replaced, ReplacedSql
from tests.crash.replaced import REPLACED
from tests.crash.replaced_sql import REPLACED_SQL

COPIED = ("asyncq", "sql", "tests", "pyproject.toml")
LIMIT_S = 120

Planted = Changed | Replaced | ReplacedSql
MUTANTS: list[Planted] = [*CHANGED, *REPLACED, *REPLACED_SQL]


def planted(mutant: Planted, folder: Path) -> Path:
    """A copy of the checkout with the bug in it."""
    copy = folder / re.sub(r"\W+", "-", mutant.name)
    copy.mkdir()
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    if (tools := CHECKOUT / ".venv").is_dir():
        (copy / tools.name).symlink_to(tools)  # Downloads for tests are kept.
    if trouble := mutant.trouble():
        raise SystemExit(f"{mutant.name}: {trouble}")
    mutant.plant(copy)
    return copy


def found(mutant: Planted, copy: Path) -> str | None:
    """The first test that fails in the copy; None if all pass, or hang."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-s",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *mutant.tests,
    ]
    variables = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    return next(iter(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)), None)


def chosen(words: Sequence[str]) -> Iterator[Planted]:
    """The mutants whose names contain one of the words; all without words."""
    return (mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words))


def main(words: Sequence[str]) -> int:
    """Plant each bug in turn; 1 if one is not found."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="asyncq-mutants-") as folder:
        for mutant in chosen(words):
            began = time.monotonic()
            test = found(mutant, planted(mutant, Path(folder)))
            missed += test is None
            said = f"found in {time.monotonic() - began:.0f} s by {test}" if test else "NOT FOUND"
            print(f"{mutant.name}: {said}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

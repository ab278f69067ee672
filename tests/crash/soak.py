"""Run all seeded tests for some minutes, each round with a new seed: `python -m tests.crash.soak 30`.

These are chaos with its ledger of claims, kills under transactional tasks, fuzzing of the parsers, and lives of jobs
against models. Failures of each statement and standbys run once. The exit code is 1 if a step fails; the command that
repeats it is printed.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.summary import FILE

CHECKOUT = Path(__file__).parents[2]
LONGEST_CHAOS_S = 75
SHORTEST_CHAOS_S = 10
ENDING_S = 15  # the time of chaos after its last fault
HANGS_AFTER_S = 900
TAIL = 6000


@dataclass(frozen=True)
class Step:
    """A part of a round: a run of pytest."""

    name: str
    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def replay(self) -> str:
        """The command that does the same again."""
        variables = " ".join(f"{name}={value}" for name, value in self.variables.items())
        return f"{variables} {os.path.relpath(sys.executable, CHECKOUT)} -m pytest {shlex.join(self.words)}".strip()


@dataclass
class Sums:
    """The results of all rounds.

    Attributes:
        failed: The steps that failed.
    """

    jobs: int = 0
    runs: int = 0
    violations: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    failed: list[Step] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add the figures that a test reported."""
        told = json.loads(line)
        self.jobs += told["jobs"]
        self.runs += told["runs"]
        self.violations += told["violations"]
        self.hits += Counter(told["hits"])
        self.starts += Counter(told.get("starts", {}))
        self.orders += Counter(told.get("orders", {}))


def steps(seed: int, left_s: float, is_first: bool) -> Iterator[Step]:
    """The steps of a round."""
    seconds = min(max(left_s - ENDING_S, SHORTEST_CHAOS_S), LONGEST_CHAOS_S)
    variables = {"ASYNCQ_CHAOS_SEED": str(seed)}
    yield Step(
        f"chaos for {seconds:.0f} s",
        ("-m", "crash", "-s", "tests/crash/test_chaos.py"),
        {**variables, "ASYNCQ_CHAOS_S": f"{seconds:.0f}"},
    )
    yield Step("exactly once", ("-m", "crash", "-s", "tests/crash/test_exactly_once.py", "-k", "many"), variables)
    by_chance = (f"--hypothesis-seed={seed}", "--timeout=0")
    soak = {"HYPOTHESIS_PROFILE": "soak"}
    yield Step("parsers", (*by_chance, "tests/domain/test_fuzz.py"), soak)
    models = (
        "tests/sql/test_life_model.py",
        "tests/sql/claim/test_fetch_model.py",
        "tests/sql/settle/test_marked_model.py",
    )
    yield Step("models", (*by_chance, *models), soak)
    if is_first:
        unseeded = ("tests/crash/test_every_statement.py", "tests/crash/test_standby.py")
        yield Step("every statement, standbys", ("-m", "crash", *unseeded))


def passes(step: Step, summary: Path, others: Sequence[str]) -> bool:
    """Run a step, and show what it says if it fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *step.words, *others]
    try:
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env={**os.environ, **step.variables, FILE: str(summary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANGS_AFTER_S,
        )
    except subprocess.TimeoutExpired:
        print("it hangs")
        return False
    if done.returncode:
        print(done.stdout[-TAIL:])
    return done.returncode == 0


def soak(minutes: float, others: Sequence[str]) -> int:
    """Repeat rounds until the time is over."""
    began, sums, seeds = time.monotonic(), Sums(), 0
    until = began + minutes * 60
    with tempfile.TemporaryDirectory(prefix="asyncq-soak-") as folder:
        summary = Path(folder) / "summary"
        while time.monotonic() < until:
            seed = random.SystemRandom().randrange(2**32)
            for step in steps(seed, until - time.monotonic(), is_first=not seeds):
                if time.monotonic() >= until:
                    break
                step_began = time.monotonic()
                summary.write_text("")
                passed = passes(step, summary, others)
                for line in summary.read_text().splitlines():
                    sums.add(line)
                said = "ok" if passed else "FAILED"
                print(f"seed {seed}: {step.name}: {said} ({time.monotonic() - step_began:.0f} s)", flush=True)
                if not passed:
                    sums.failed.append(step)
                    print(f"again: {step.replay}", flush=True)
            seeds += 1
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, {seeds} seeds: {sums.jobs} jobs, {sums.runs} runs")
    for name, counts in (("hits", sums.hits), ("orders", sums.orders), ("starts", sums.starts)):
        print(f"{name}: {', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))}")
    print(f"violations {sums.violations}, failures {len(sums.failed)}")
    for step in sums.failed:
        print(f"again: {step.replay}")
    return 1 if sums.failed or sums.violations else 0


if __name__ == "__main__":
    raise SystemExit(soak(float(sys.argv[1]), sys.argv[2:]))

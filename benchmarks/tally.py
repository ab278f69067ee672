"""How many nanoseconds a job the numbers over time cost a worker: `python -m benchmarks.tally`.

A drain of some 10 us a job cannot resolve it. The goal is 100 ns a job in batches of 500.
"""

import time
from types import SimpleNamespace
from typing import Any

from asyncq.domain.task import task
from asyncq.engine.run.run import Run
from asyncq.engine.tally import Tally

ROUNDS = 2_000
BATCHES = ((500, 1), (500, 20), (100, 1), (10, 1))


def batch(size: int, tasks: int) -> list[Run]:
    """Ended runs of some tasks, in turn."""

    def handler() -> None:
        """Do nothing."""

    made = [task(name=f"t{number}")(handler) for number in range(tasks)]
    claim: Any = SimpleNamespace(due=0)
    runs = [Run(claim=claim, task=made[number % tasks], worker_id=1) for number in range(size)]
    for run in runs:
        run.ended_at = run.started_at + 0.003
    return runs


def cost_ns(size: int, tasks: int) -> float:
    """The nanoseconds a job of the fastest of ten rounds."""
    nothing: Any = None
    lease: Any = SimpleNamespace(server_clock_s=time.time())
    observers: Any = SimpleNamespace(emit=None)
    tally, runs = Tally(nothing, nothing, observers, lease, counts=True), batch(size, tasks)
    best = float("inf")
    for _ in range(10):
        began = time.process_time()
        for _ in range(ROUNDS // 10):
            tally.ended_well(runs)
        best = min(best, time.process_time() - began)
    return best / (ROUNDS // 10) / size * 1e9


def main() -> None:
    """Print a line for each kind of batch."""
    for size, tasks in BATCHES:
        print(f"batches of {size:>3} jobs of {tasks:>2} tasks: {cost_ns(size, tasks):6.1f} ns a job")


if __name__ == "__main__":
    main()

"""One handler that computes, as a coroutine, in a thread and in a process: the tasks of `benchmarks.cpu`."""

from __future__ import annotations

import time

from asyncq import task

COMPUTE_S = 2.0


def compute() -> None:
    """Use so many seconds of a CPU in Python code, which keeps the interpreter's lock."""
    end = time.thread_time() + COMPUTE_S
    while time.thread_time() < end:
        sum(range(1_000))


@task(name="compute_in_loop")
async def in_loop() -> None:
    """Compute in the event loop."""
    compute()


@task(name="compute_in_thread")
def in_thread() -> None:
    """Compute in a thread of the worker."""
    compute()


@task(name="compute_in_process", run_in="process")
def in_process() -> None:
    """Compute in another process."""
    compute()

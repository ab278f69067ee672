"""A handler that computes runs in another process, where it delays nobody, and can be killed."""

import os
from pathlib import Path

import pytest

from asyncq import Client, JobState, task
from asyncq.testing import run_due


@task(run_in="process")
def count_primes(below: int) -> None:
    """Compute for a while, and say where."""
    primes = [n for n in range(2, below) if all(n % factor for factor in range(2, int(n**0.5) + 1))]
    Path(f"{below}.txt").write_text(f"{len(primes)} {os.getpid()}")


@task(run_in="process", timeout="50 ms")
def never_end() -> None:
    """Compute for ever."""
    while True:
        pass


@task(run_in="process")
def crash() -> None:
    """End the process, as a defect of a C library does."""
    os.abort()


async def test_a_plain_function_can_run_in_another_process(
    dsn: str, schema: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is imported there, and reused for further jobs. Its context and resources stay in the worker."""
    monkeypatch.chdir(tmp_path)
    added = await client.add_job(count_primes, 100)
    ran = await run_due(dsn, [count_primes], schema=schema)
    primes, pid = (tmp_path / "100.txt").read_text().split()

    assert ran.completed == [added.id]
    assert primes == "25"
    assert pid != str(os.getpid())


async def test_a_process_can_be_killed(dsn: str, schema: str, client: Client) -> None:
    """By a time limit, or by a cancellation. A thread cannot."""
    added = await client.add_job(never_end)
    ran = await run_due(dsn, [never_end], schema=schema)

    assert ran.retried == [added.id]
    assert ran.errors[added.id].startswith("TimedOut: ran longer than 0.05 s")


async def test_a_process_that_crashes_fails_its_job_alone(dsn: str, schema: str, client: Client) -> None:
    """The worker goes on, and so do the jobs in other processes."""
    crashed = await client.add_job(crash)
    ran = await run_due(dsn, [crash], schema=schema)
    job = await client.get_job(crashed.id)

    assert ran.retried == [crashed.id]
    assert (job.state, job.attempts) == (JobState.RETRYABLE, 1)
    assert job.last_error == "ProcessDied: the process of the handler was ended by SIGABRT"

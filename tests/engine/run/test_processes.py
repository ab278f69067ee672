"""Handlers in other processes: results, errors and logs come back, and each process can end or be killed alone."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from asyncq import Call, Client, JobContext, JobState, ProcessDied, RaisedInProcess, RunInfo, task
from asyncq.domain.events import (
    GraceExceeded,
    JobCancelled,
    JobCompleted,
    JobDiscarded,
    JobInterrupted,
    JobRetried,
    JobSnoozed,
    JobStarted,
    JobTimedOut,
    ResultIgnored,
    ResultRefused,
)
from asyncq.engine.run import processes
from asyncq.engine.run.time_limit import TimeLimit
from tests.engine.conftest import MakeWorker
from tests.support.cli import appears
from tests.support.process_tasks import Size, compute, die, fail, fill, hang, leave, measure, measure_badly, split, who
from tests.support.seen import Seen
from tests.support.slow_tasks import quick
from tests.support.unloadable_tasks import never
from tests.support.waiting import wait_until


def lives(pid: int) -> bool:
    """Whether a process exists, and has not ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def ends(pids: list[int]) -> None:
    """Wait until none of these processes lives."""
    await wait_until(lambda: not any(lives(pid) for pid in pids), description=f"the end of {pids}")


class Results:
    """A middleware that keeps what handlers return and raise."""

    def __init__(self) -> None:
        self.returned: list[Any] = []
        self.raised: list[BaseException] = []

    async def __call__(self, run: RunInfo, call: Call) -> Any:
        try:
            self.returned.append(await call())
        except BaseException as error:
            self.raised.append(error)
            raise
        return self.returned[-1]


async def test_a_handler_in_a_process_returns_prints_and_logs(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One process is started for all jobs of one slot; a signal that reaches it too does not end it."""
    results = Results()
    caplog.set_level(logging.INFO, "tests.process")
    added = await client.add_jobs([who.job("one"), who.job("two"), compute.job(12)])
    await make_worker(who, compute, concurrency=1, middleware=[results]).run_once()
    first, second, squared = results.returned
    records = [record for record in caplog.records if record.name == "tests.process"]

    assert (["one", "two"], 144) == ([first["word"], second["word"]], squared)
    assert first["pid"] == second["pid"] != os.getpid()
    assert [each.id for each in added] == seen.ids(JobCompleted)
    assert ["logged one", "logged two"] == [record.getMessage() for record in records]
    assert (added[0].id, "who", "one", [1, 2]) == tuple(vars(records[0])[n] for n in ("job_id", "task", "word", "odd"))
    assert "printed one\nprinted two\n" in capfd.readouterr().err
    assert not lives(first["pid"])


async def test_the_result_of_a_handler_in_a_process_is_kept(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """As that of other handlers, with its type. A result that JSON cannot hold is refused."""
    results = Results()
    measured, refused = await client.add_job(measure, 3), await client.add_job(measure_badly)
    await make_worker(measure, measure_badly, concurrency=1, middleware=[results]).run_once()

    assert Size(3, 2) == results.returned[0] == await measured.result(timeout=20)
    assert [measured.id, refused.id] == seen.ids(JobCompleted)
    assert ["result cannot be written as JSON: Encoding objects of type object is unsupported"] == [
        event.error for event in seen.of(ResultRefused)
    ]


async def test_a_process_ends_in_order_with_its_worker(client: Client, make_worker: MakeWorker, tmp_path: Path) -> None:
    """Connections that a module has opened are closed by its `atexit` functions."""
    await client.add_job(leave, str(tmp_path / "bye"))
    await make_worker(leave).run_once()

    assert "bye" == (tmp_path / "bye").read_text()


async def test_a_handler_in_a_process_raises(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Errors and verdicts decide as those of other handlers, and the process goes on with the next job."""
    results = Results()
    hows = ["value", "exit", "retry", "refused", "snooze", "discard", "group", "unreadable"]
    added = {how: (await client.add_job(fail, how)).id for how in hows}
    odd = await client.add_job("who", {"wrod": 1})
    await make_worker(fail, who, concurrency=1, middleware=[results]).run_once()
    jobs = {how: await client.get_job(added[how]) for how in hows[:-1]}
    errors = {how: job.last_error or "" for how, job in jobs.items()}

    assert [added["value"], added["exit"], added["retry"], odd.id] == seen.ids(JobRetried)
    assert [added["refused"], added["snooze"]] == seen.ids(JobSnoozed)
    assert [added["discard"], added["group"]] == seen.ids(JobDiscarded)
    assert errors["value"].startswith("ValueError: no such thing\n\nTraceback (most recent call last):\n")
    assert 'raise ValueError("no such thing")' in errors["value"]
    assert "process_main.py" not in errors["value"]
    assert errors["exit"].startswith("SystemExit: 3\n")
    assert ("RetryAfter: busy", "RetryAfter: 429") == (errors["retry"], errors["refused"])
    assert ("Discard: no use", 0) == (errors["discard"], jobs["refused"].attempts)
    assert errors["group"].startswith("Discard: of a group\n\n")
    assert "ValueError: another one" in errors["group"]
    assert 600 == seen.of(JobRetried)[2].delay_s
    assert isinstance(results.raised[0], RaisedInProcess)
    assert ("ValueError", "no such thing") == (results.raised[0].type_name, str(results.raised[0]))
    assert 1 == len(seen.of(ResultIgnored))
    assert "payload does not fit" in ((await client.get_job(odd.id)).last_error or "")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("exit", "ProcessDied: the process of the handler ended with exit code 3"),
        ("kill", "ProcessDied: the process of the handler was ended by SIGKILL: was the memory exhausted?"),
        ("close", "ProcessDied: the process of the handler closed the socket to its worker"),
    ],
)
async def test_a_process_that_dies_fails_its_job_alone(
    client: Client, make_worker: MakeWorker, seen: Seen, how: str, said: str
) -> None:
    """Pools of the standard library fail every job then. Here the next job gets a new process."""
    died = await client.add_job(die, how)
    after = await client.add_job(compute, 3)
    results = Results()
    await make_worker(die, compute, processes=1, middleware=[results]).run_once()

    assert ([died.id], [after.id]) == (seen.ids(JobDiscarded), seen.ids(JobCompleted))
    assert (said, [9]) == ((await client.get_job(died.id)).last_error, results.returned)
    assert isinstance(results.raised[0], ProcessDied)


async def test_a_child_that_a_handler_forks_answers_no_job(
    client: Client, make_worker: MakeWorker, seen: Seen, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its answer would end the job of its parent, whose own answer would end the next job. It must not write at all."""
    results = Results()
    added = [await client.add_job(split, "one"), await client.add_job(split, "two"), await client.add_job(compute, 3)]
    await make_worker(split, compute, concurrency=1, middleware=[results]).run_once()
    said = capfd.readouterr().err

    assert ["one", "two", 9] == results.returned
    assert [each.id for each in added] == seen.ids(JobCompleted)
    assert 2 == said.count("ValueError: in a child\n\nTraceback")
    assert 2 == said.count("logged by the child that returns")


async def test_a_cancelled_job_is_killed_with_all_that_it_started(
    client: Client, make_worker: MakeWorker, seen: Seen, tmp_path: Path
) -> None:
    """A thread cannot be cancelled; a process can. Other jobs go on."""
    async with make_worker(hang, compute).start():
        added = await client.add_job(hang, str(tmp_path / "hang"))
        pids = [int(pid) for pid in (await appears(tmp_path / "hang")).split()]
        await client.admin.cancel_jobs([added.id])
        await seen.wait_for(JobCancelled)
        alive = lives(pids[0])
        await ends(pids)
        await client.add_job(compute, 3)
        await seen.wait_for(JobCompleted)

    assert not alive


async def test_the_imports_of_a_process_do_not_count_as_time_of_the_run(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Each attempt that is killed gets a new process, which would again be too late."""
    await client.add_job(quick)
    async with make_worker(quick).start():
        await seen.wait_for(JobCompleted)

    assert [] == seen.of(JobTimedOut)


async def test_the_time_limit_also_holds_if_a_process_cannot_import_the_handler(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """What middleware does with the error takes time of the run."""

    async def wait(_: RunInfo, call: Call) -> Any:
        with suppress(RaisedInProcess):
            await call()
        await asyncio.Event().wait()

    await client.add_job(never)
    async with make_worker(never, middleware=[wait], grace=0).start():
        event = await seen.wait_for(JobTimedOut)

    assert 0.3 == event.timeout_s


async def test_a_process_is_killed_at_the_hard_limit(
    client: Client, make_worker: MakeWorker, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt has failed."""
    fire: list[Callable[[], None]] = []
    monkeypatch.setattr(TimeLimit, "start", lambda _, ask_to_end, time_out: fire.append(time_out))
    async with make_worker(hang).start():
        added = await client.add_job(hang, str(tmp_path / "hang"))
        pids = [int(pid) for pid in (await appears(tmp_path / "hang")).split()]
        fire[0]()
        await seen.wait_for(JobRetried)
        alive = lives(pids[0])
    job = await client.get_job(added.id)
    await ends(pids)

    assert not alive
    assert 3600 == seen.of(JobTimedOut)[0].timeout_s
    assert (job.last_error or "").startswith("TimedOut: ran longer than 3600 s")


async def test_a_stopping_worker_kills_processes_after_the_grace_period(
    client: Client, make_worker: MakeWorker, seen: Seen, tmp_path: Path
) -> None:
    """Their jobs are due again, with no attempt counted, as those of other handlers."""
    async with make_worker(hang, grace=0.05).start():
        added = await client.add_job(hang, str(tmp_path / "hang"))
        pids = [int(pid) for pid in (await appears(tmp_path / "hang")).split()]
    alive = lives(pids[0])
    job = await client.get_job(added.id)
    await ends(pids)

    assert not alive
    assert ([added.id], 1) == (seen.ids(JobInterrupted), len(seen.of(GraceExceeded)))
    assert (JobState.AVAILABLE, 0) == (job.state, job.attempts)


async def test_a_process_that_uses_too_much_memory_is_killed(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It must not fill the machine."""
    added = await client.add_job(fill, 400)
    await make_worker(fill, process_memory=160 * 1024 * 1024).run_once()
    error = (await client.get_job(added.id)).last_error or ""

    assert [added.id] == seen.ids(JobDiscarded)
    assert error.startswith("ProcessDied: the process of the handler used ")
    assert error.endswith(" MiB of memory, more than the 160 MiB of process_memory, and was killed")


async def test_a_process_that_is_too_large_after_a_job_is_not_used_again(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leak grows with each job."""
    monkeypatch.setattr(processes, "MEMORY_EVERY_S", 3600)
    results = Results()
    await client.add_jobs([fill.job(150), fill.job(1), fill.job(1)])
    options: dict[str, Any] = {"process_memory": 160 * 1024 * 1024, "middleware": [results], "concurrency": 1}
    await make_worker(fill, **options).run_once()
    first, second, third = results.returned

    assert first != second == third


async def test_a_job_that_waits_for_a_process_can_be_cancelled(
    client: Client, make_worker: MakeWorker, seen: Seen, tmp_path: Path
) -> None:
    """It has no process yet; the one of the other job lives on."""

    @task
    async def cancel(job_id: int, ctx: JobContext) -> None:
        await client.admin.cancel_jobs([job_id])

    async with make_worker(hang, compute, cancel, processes=1, grace=0).start():
        await client.add_job(hang, str(tmp_path / "hang"))
        pid = int((await appears(tmp_path / "hang")).split()[0])
        waits = await client.add_job(compute, 3)
        await seen.wait_for(JobStarted, 2)
        await client.add_job(cancel, waits.id)
        await seen.wait_for(JobCancelled)
        alive = lives(pid)

    assert ([waits.id], True) == (seen.ids(JobCancelled), alive)


async def test_the_wait_for_a_process_does_not_count_as_time_of_the_run() -> None:
    """A backlog of long jobs would fail all others by their time limits."""
    fired = asyncio.Event()
    limit = TimeLimit(None, 0.001)
    limit.hold()
    limit.start(fired.set, fired.set)
    await asyncio.sleep(0.02)
    fired_early = fired.is_set()
    limit.go_on()
    await fired.wait()

    assert (False, "TimedOut: ran longer than 0.001 s") == (fired_early, limit.timed_out().error)

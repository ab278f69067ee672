"""The loop's guardian: a handler that blocks the event loop is named with its stack, and its worker is not dead."""

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
import uvloop
from anyio.to_thread import run_sync

from asyncq import Client, JobState, Task, Worker, task
from asyncq.domain.events import (
    GraceExceeded,
    JobCompleted,
    JobRetried,
    JobsRescued,
    JobStarted,
    LeaseInDoubt,
    LoopBlocked,
    WorkerLost,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from asyncq.engine.liveness.loop_watchdog import LoopWatchdog, _Question
from asyncq.engine.run import stacks
from asyncq.store.heartbeat_connection import HeartbeatConnection
from tests.engine.conftest import MakeWorker
from tests.support.locks import be_up_for_long
from tests.support.seen import Seen
from tests.support.waiting import LIMIT_S, wait_until

SOON = 0.1
STOPPED_S = 0.2  # longer than a loop may take to answer


@task
async def unused() -> None:
    """A worker needs a task."""


class Blocker:
    """A task whose handlers block their event loop until they may leave."""

    def __init__(self) -> None:
        self.leave = threading.Event()
        self.runs = 0

    def block_here(self) -> None:
        """Block the thread; stacks must show this line."""
        assert self.leave.wait(LIMIT_S)

    @property
    def task(self) -> Task[...]:
        """The task, called `block`."""

        @task
        async def block() -> None:
            self.runs += 1
            self.block_here()

        return block


@pytest.fixture
def blocker() -> Iterator[Blocker]:
    """A task whose handlers block; they leave at the end of the test at the latest."""
    made = Blocker()
    yield made
    made.leave.set()


def ask_to_stop(worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    """Ask a worker of another loop to stop; no coroutine remains even if that loop is ending, or has ended."""

    def ask() -> None:
        if worker._stop is not None:
            worker._stop.ask("the test asked")

    with suppress(RuntimeError):  # the loop is closed: the worker has ended
        loop.call_soon_threadsafe(ask)


@asynccontextmanager
async def elsewhere(worker: Worker, *, on_uvloop: bool = False) -> AsyncIterator[None]:
    """Run a worker in an event loop of its own, in a thread, so that it may be blocked."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        await worker.run()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if on_uvloop else None) as runner:
            runner.run(work())

    async with asyncio.TaskGroup() as group:
        ended = group.create_task(run_sync(run))
        await wait_until(lambda: bool(loops) or ended.done(), description="the loop")
        try:
            yield
        finally:
            ask_to_stop(worker, loops[0])


def warnings_of(caplog: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    """The records whose message contains these words."""
    return [record for record in caplog.records if words in record.getMessage()]


async def last_error(client: Client, job_id: int, *, beginning: str) -> str:
    """Wait until the record of a job holds an error that begins so."""
    found = ""

    async def is_there() -> bool:
        nonlocal found
        found = (await client.get_job(job_id)).last_error or ""
        return found.startswith(beginning)

    await wait_until(is_there, description=f"last_error {beginning}")
    return found


async def test_a_handler_that_blocks_the_loop_is_named_at_once_in_the_log_and_in_its_job(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named while it still blocks, since the loop may never return."""
    async with elsewhere(make_worker(blocker.task, blocked_after=SOON)):
        added = await client.add_job("block")
        error = await last_error(client, added.id, beginning="LoopBlocked: ")
        await wait_until(lambda: bool(warnings_of(caplog, "has not answered")), description="the warning")
        (record,) = warnings_of(caplog, "has not answered")
        told_before = seen.of(LoopBlocked)
        blocker.leave.set()
        told = await seen.wait_for(LoopBlocked)
        await seen.wait_for(JobCompleted)

    assert ([], added.id, "block") == (told_before, told.job_id, told.task)
    assert told.blocked_s >= SOON
    assert f"job {added.id} (block, attempt 1 of 25)" in record.getMessage()
    assert ("LoopBlocked", added.id, "block") == tuple(
        vars(record)[name] for name in ("asyncq_event", "job_id", "task")
    )
    assert [True] * 3 == ["in block_here" in text for text in (error, record.getMessage(), told.stack)]
    assert "isolation.py" not in told.stack


@pytest.mark.parametrize("on_uvloop", [False, True], ids=["asyncio", "uvloop"])
async def test_a_handler_that_blocks_for_longer_than_the_lease_keeps_it_and_runs_once(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    blocker: Blocker,
    db: asyncpg.Connection,
    schema: str,
    on_uvloop: bool,
) -> None:
    """The heartbeat has its own thread and connection, whose lock the others see. So nobody takes over."""
    await be_up_for_long(db, schema)
    other = Seen()
    async with elsewhere(make_worker(blocker.task, lease=1, blocked_after=SOON), on_uvloop=on_uvloop):
        added = await client.add_job("block")
        await wait_until(lambda: blocker.runs == 1, description="the handler")
        async with make_worker(blocker.task, lease=1, observers=[other]).start():
            since = time.monotonic()
            await wait_until(lambda: time.monotonic() - since > 1.5, description="the end of a lease")
            row = await db.fetchrow(
                f"select last_seen > now() - interval '0.9 s', locks, doubted_at from {schema}._workers order by id"
            )
            blocker.leave.set()
            await seen.wait_for(JobCompleted)
    told = seen.of(LoopBlocked)

    assert (True, True, None) == tuple(row or ())
    assert ([], [], []) == (seen.of(JobsRescued), seen.of(LeaseInDoubt), seen.of(WorkerLost))
    assert (1, [added.id], [added.id]) == (blocker.runs, seen.ids(JobCompleted), [event.job_id for event in told])
    assert "in block_here" in told[0].stack


async def test_a_task_that_a_handler_started_blocks_in_its_name(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker
) -> None:
    """The task inherits the handler's context, and is known by it."""

    @task
    async def start_another() -> None:
        async def inner() -> None:
            blocker.block_here()

        await asyncio.get_running_loop().create_task(inner())

    async with elsewhere(make_worker(start_another, blocked_after=SOON)):
        added = await client.add_job(start_another)
        await last_error(client, added.id, beginning="LoopBlocked: ")
        blocker.leave.set()
        told = await seen.wait_for(LoopBlocked)
        await seen.wait_for(JobCompleted)

    assert (added.id, "start_another") == (told.job_id, told.task)


async def test_other_code_that_blocks_the_loop_is_shown_without_a_job(
    make_worker: MakeWorker, seen: Seen, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    """A service runs more than its worker; its own mistakes delay the jobs too."""

    def block_at_the_start(event: object) -> None:
        if isinstance(event, WorkerStarted):
            asyncio.get_running_loop().call_soon(blocker.block_here)

    async with elsewhere(make_worker(blocked_after=SOON, observers=[block_at_the_start])):
        await wait_until(lambda: bool(warnings_of(caplog, "has not answered")), description="the warning")
        blocker.leave.set()
        told = await seen.wait_for(LoopBlocked)

    assert (None, None) == (told.job_id, told.task)
    assert "in block_here" in told.stack
    assert "code that is not one of its handlers" in warnings_of(caplog, "has not answered")[0].getMessage()


async def test_of_two_workers_in_one_loop_only_the_one_whose_handler_blocks_reports(
    dsn: str, schema: str, client: Client, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    """The other worker has no fault, and one report is enough."""
    first, second = Seen(), Seen()
    innocent = Worker(dsn, [unused], schema=schema, observers=[first], blocked_after=SOON, poll=60)
    guilty = Worker(dsn, [blocker.task], schema=schema, observers=[second], blocked_after=SOON, poll=60)
    ready, done = threading.Event(), threading.Event()

    async def both() -> None:
        async with innocent.start(), guilty.start():
            ready.set()
            await wait_until(done.is_set, description="the test")

    async with asyncio.TaskGroup() as group:
        group.create_task(run_sync(lambda: asyncio.run(both())))
        await wait_until(ready.is_set, description="the workers")
        added = await client.add_job("block")
        await last_error(client, added.id, beginning="LoopBlocked: ")
        # Both have had the time to notice.
        since = time.monotonic()
        await wait_until(lambda: time.monotonic() - since > 3 * SOON, description="the other one")
        blocker.leave.set()
        await second.wait_for(JobCompleted)
        await second.wait_for(LoopBlocked)
        done.set()

    assert ([], [added.id]) == (first.of(LoopBlocked), [event.job_id for event in second.of(LoopBlocked)])
    assert 1 == len(warnings_of(caplog, "has not answered"))


async def test_a_loop_that_is_blocked_while_the_worker_stops_is_reported_and_the_stop_continues(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker
) -> None:
    """The grace period has passed when the loop answers; the job has ended, and is settled."""

    @task
    async def block_at_the_end(n: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            blocker.block_here()

    worker = make_worker(block_at_the_end, blocked_after=SOON, grace=0)
    async with elsewhere(worker):
        added = await client.add_job(block_at_the_end.job(n=1))
        await seen.wait_for(JobStarted)
        assert worker._running is not None
        loop = worker._running.parts.heartbeat._heartbeat_thread._home
        ask_to_stop(worker, loop)
        await last_error(client, added.id, beginning="LoopBlocked: ")
        stopping, stopped = len(seen.of(WorkerStopping)), len(seen.of(WorkerStopped))
        blocker.leave.set()
        await seen.wait_for(WorkerStopped)
    job = await client.get_job(added.id)

    assert (1, 0, [added.id]) == (stopping, stopped, [event.job_id for event in seen.of(LoopBlocked)])
    assert [0] == [event.stuck for event in seen.of(WorkerStopped)]
    assert (1, JobState.AVAILABLE, 0) == (len(seen.of(GraceExceeded)), job.state, job.attempts)


async def test_a_job_that_fails_after_it_blocked_has_the_error_of_its_run(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker
) -> None:
    """The note is less important than the error of the run."""

    @task
    async def block_and_fail() -> None:
        blocker.block_here()
        raise LookupError("gone")

    async with elsewhere(make_worker(block_and_fail, blocked_after=SOON)):
        added = await client.add_job(block_and_fail)
        await last_error(client, added.id, beginning="LoopBlocked: ")
        blocker.leave.set()
        await seen.wait_for(JobRetried)
        error = (await client.get_job(added.id)).last_error or ""

    assert error.startswith("LookupError: gone")


async def test_without_the_option_nothing_is_watched(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker
) -> None:
    """The option is for programs that watch their loops themselves."""
    async with elsewhere(make_worker(blocker.task, blocked_after=None)):
        added = await client.add_job("block")
        await wait_until(lambda: blocker.runs == 1, description="the handler")
        since = time.monotonic()
        await wait_until(lambda: time.monotonic() - since > 3 * SOON, description="a while")
        job = await client.get_job(added.id)
        blocker.leave.set()
        await seen.wait_for(JobCompleted)

    assert (None, []) == (job.last_error, seen.of(LoopBlocked))


async def test_a_loop_that_is_busy_with_short_steps_is_not_blocked(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It answers between them, however long it is busy."""

    @task
    async def work() -> None:
        until = time.monotonic() + 5 * SOON
        while time.monotonic() < until:
            time.sleep(0.005)  # noqa: ASYNC251 - this is the point
            await asyncio.sleep(0)

    await client.add_job(work)
    await make_worker(work, blocked_after=2 * SOON).run_once()

    assert (1, []) == (len(seen.of(JobCompleted)), seen.of(LoopBlocked))


async def test_a_process_that_was_stopped_reports_no_handler(dsn: str, schema: str, client: Client) -> None:
    """Both of its threads were paused, so no handler caused the delay."""
    words = ["-m", "tests.support.watchdog_program", dsn, schema, str(SOON)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        added = await client.add_job("hold")
        heard = [await _until_started(process.stdout)]
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(STOPPED_S)
            process.send_signal(signal.SIGCONT)
            await client.add_job("hold")  # When it starts, the loop has answered.
            heard.append(await _until_started(process.stdout))
        job = await client.get_job(added.id)
        process.send_signal(signal.SIGTERM)
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()

    assert (0, None) == (process.returncode, job.last_error)
    assert b"LoopBlocked" not in b"".join([*heard, said])
    assert b"WorkerStopped" in said


async def _until_started(said: asyncio.StreamReader) -> bytes:
    """Read the output of a process until a job has started."""
    lines: list[bytes] = []
    while not lines or b"started" not in lines[-1]:
        lines.append(await said.readline())
        assert lines[-1]
    return b"".join(lines)


async def test_a_check_that_is_late_itself_reports_no_handler(make_worker: MakeWorker) -> None:
    """The loop did not answer, but the watching thread was not running either."""
    async with make_worker(blocked_after=SOON).start() as worker:
        assert worker._running is not None
        run = worker._running
        guardian = LoopWatchdog(
            SOON, run.parts.identity, run.parts.executor, run.parts.child_tasks, run._observers.emit
        )
        blocks = []
        for late_s in (10 * SOON, 0.0):
            long_ago = time.monotonic() - 10 * SOON
            question = guardian._question = _Question(long_ago)
            guardian._look(lambda: None, time.monotonic() - late_s)
            assert guardian._timer is not None
            guardian._timer.cancel()
            blocks.append(question.block is not None)

    assert [False, True] == blocks


async def test_a_loop_that_waits_is_not_reported_as_blocked() -> None:
    """On a busy machine the loop may get no turn for a while."""
    ident = threading.get_ident()
    while not await run_sync(stacks.is_in_loop, ident):
        pass

    assert not stacks.is_in_loop(ident)


async def test_a_note_that_cannot_be_written_costs_nothing(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note is optional, and the beats are more important."""
    tried = threading.Event()

    async def refuse(*_: object) -> None:
        tried.set()
        raise TimeoutError

    monkeypatch.setattr(HeartbeatConnection, "note_block", refuse)
    async with elsewhere(make_worker(blocker.task, blocked_after=SOON)):
        added = await client.add_job("block")
        await wait_until(tried.is_set, description="the note")
        blocker.leave.set()
        await seen.wait_for(JobCompleted)
        await seen.wait_for(LoopBlocked)

    assert ([added.id], [], []) == (seen.ids(JobCompleted), seen.of(LeaseInDoubt), seen.of(WorkerLost))

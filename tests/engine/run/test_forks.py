"""Children that handlers fork: signals reach them as if there were no worker, and they keep none of its sockets."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import asyncpg
import pytest

from asyncq import Client, JobFilter, JobState
from asyncq.domain.events import JobsRescued
from tests.engine.conftest import MakeWorker
from tests.engine.test_shutdown import ROOT, Program
from tests.engine.test_signals import nothing
from tests.support.locks import be_up_for_long
from tests.support.seen import Seen
from tests.support.waiting import wait_until

StartProgram = Callable[..., AbstractAsyncContextManager[Program]]

LOOPS = ("asyncio", "uvloop")


@pytest.fixture
def program(dsn: str, schema: str) -> StartProgram:
    """Start the program in a group of processes of its own; at the end all of the group are killed."""

    @asynccontextmanager
    async def start(loop: str, before: str = "default") -> AsyncGenerator[Program]:
        words = ["-m", "tests.support.fork_program", dsn, schema, loop, before]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=PIPE, cwd=ROOT, start_new_session=True
        )
        try:
            yield Program(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()

    return start


async def child_of(program: Program) -> int:
    """Wait until a child runs; returns its process id."""
    await wait_for(program, "child ")
    (line,) = [line for line in program.lines if line.startswith("child ")]
    return int(line.split()[1])


async def wait_for(program: Program, beginning: str) -> None:
    """Wait for a line that begins so."""
    assert program.process.stdout is not None
    while not any(line.startswith(beginning) for line in program.lines):
        line = (await program.process.stdout.readline()).decode()
        assert line, f"it ended without {beginning!r}: {program.lines}"
        program.lines.append(line.strip())


async def end(program: Program) -> int:
    """Wait for the last line, and for the end; returns the exit code."""
    await program.says("ended")
    return await program.process.wait()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ["pool", "hasty_pool"])
async def test_a_handler_can_leave_a_pool_of_processes(
    program: StartProgram, client: Client, loop: str, name: str
) -> None:
    """The pool ends by sending SIGTERM to its processes, and waits for their end."""
    async with program(loop) as worker:
        await client.add_job(name)
        await worker.says("event JobCompleted")
        worker.process.send_signal(signal.SIGTERM)

        assert 0 == await end(worker)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ["process", "fork"])
async def test_sigterm_ends_a_child_and_not_its_parent(
    program: StartProgram, client: Client, loop: str, name: str
) -> None:
    """The child neither used nor closed the worker's connections, so the worker goes on."""
    async with program(loop) as worker:
        await client.add_job(name)
        os.kill(await child_of(worker), signal.SIGTERM)
        await worker.says("ended with -15", "event JobCompleted")
        await client.add_job("nothing")
        await worker.says("nothing")
        worker.process.send_signal(signal.SIGTERM)
        code = await end(worker)

    told = {line for line in worker.lines if "Failed" in line or "Lost" in line or "Doubt" in line}
    assert (0, set[str](), False) == (code, told, "child goes on" in worker.lines)


@pytest.mark.parametrize("name", ["process", "fork"])
async def test_ctrl_c_ends_a_child_by_a_keyboard_interrupt(program: StartProgram, client: Client, name: str) -> None:
    """A program without a worker ends like this. The handler of `asyncio.run` would ignore the first signal."""
    async with program("asyncio") as worker:
        await client.add_job(name)
        os.kill(await child_of(worker), signal.SIGINT)
        await worker.says("child interrupted", "ended with 0", "event JobCompleted")
        worker.process.send_signal(signal.SIGTERM)

        assert 0 == await end(worker)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
@pytest.mark.parametrize("name", ["process", "fork"])
async def test_a_signal_to_the_group_ends_the_child_and_lets_the_worker_stop_in_order(
    program: StartProgram, client: Client, loop: str, number: signal.Signals, name: str
) -> None:
    """A terminal, or a supervisor, sends it to all; the job ends because its child does, within the grace period."""
    async with program(loop) as worker:
        added = await client.add_job(name)
        await child_of(worker)
        os.killpg(worker.process.pid, number)
        await worker.says("event WorkerStopping", "event JobCompleted")
        code = await end(worker)
        ended = f"ended with {0 if number is signal.SIGINT else -15}"

    left = (await client.admin.find_jobs(JobFilter(state=JobState.AVAILABLE), newest=False)).jobs
    assert (0, True, []) == (code, ended in worker.lines, [job.id for job in left if job.id == added.id])


async def test_a_child_has_the_handler_from_before_the_worker(program: StartProgram, client: Client) -> None:
    """The function of a program is called in the child too, as after any fork."""
    async with program("asyncio", "mine") as worker:
        await client.add_job("process")
        child = await child_of(worker)
        os.kill(child, signal.SIGTERM)
        await worker.says(f"mine in {child}")
        os.kill(child, signal.SIGINT)
        await worker.says("ended with 0")
        worker.process.send_signal(signal.SIGTERM)
        await worker.says(f"mine in {worker.process.pid}")

        assert 0 == await end(worker)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_signal_to_a_child_calls_nothing_in_the_event_loop_of_its_parent(
    program: StartProgram, client: Client, loop: str
) -> None:
    """The child inherits the descriptor that wakes the parent's event loop. It must not write to it."""
    async with program(loop, "loop") as worker:
        await client.add_job("process")
        os.kill(await child_of(worker), signal.SIGTERM)
        await worker.says("ended with -15", "event JobCompleted")
        before = [line for line in worker.lines if line.startswith("the service")]
        worker.process.send_signal(signal.SIGTERM)
        await worker.says(f"the service was called in {worker.process.pid}")

        assert (0, []) == (await end(worker), before)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_child_can_run_a_worker_of_its_own(program: StartProgram, client: Client, loop: str) -> None:
    """It handles its own signals, and does not belong to its parent's worker."""
    async with program(loop) as parent:
        await client.add_job("worker")
        await parent.says("event WorkerStarted", "event JobStarted")
        parent.lines.clear()
        await parent.says("event WorkerStarted")
        workers = await client.admin.list_workers()
        (child,) = [each.pid for each in workers if each.pid != parent.process.pid]
        os.kill(child, signal.SIGTERM)
        await parent.says("event WorkerStopped", "ended with 0", "event JobCompleted")
        parent.lines.clear()
        parent.process.send_signal(signal.SIGTERM)

        assert 0 == await end(parent)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["returns", "raises", "exits", "waits"])
async def test_a_child_that_returns_into_the_event_loop_ends(
    program: StartProgram, client: Client, loop: str, how: str
) -> None:
    """It would be a second worker with the same id and the same claims."""
    async with program(loop) as worker:
        await client.add_job("comes_back", {"how": how})
        await worker.says("ended with 1", "event JobCompleted")
        await client.add_job("nothing")
        await worker.says("nothing")
        worker.process.send_signal(signal.SIGTERM)
        code = await end(worker)

    completed = worker.lines.count("event JobCompleted")
    assert (0, 2, 1) == (code, completed, worker.lines.count("nothing"))


@pytest.mark.leaves_something
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ["process", "fork"])
async def test_the_death_of_a_worker_is_seen_while_its_child_lives(
    program: StartProgram,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    schema: str,
    loop: str,
    name: str,
) -> None:
    """A copied socket would keep the lock and every session of the dead worker until the child ends as well."""
    await be_up_for_long(db, schema)
    async with program(loop) as killed:
        await client.add_job(name)
        child = await child_of(killed)
        killed.process.kill()
        # `wait()` would wait for the end of its output too, which the child keeps open.
        await wait_until(lambda: killed.process.returncode is not None, description="the death of the parent")
        own = "select count(*) from pg_stat_activity where application_name like $1 || ' %' and application_name <> $2"

        async def are_gone() -> bool:
            return await db.fetchval(own, schema, f"{schema} client") == 0

        await wait_until(are_gone, description="the end of its sessions")
        async with make_worker(nothing).start():
            await seen.wait_for(JobsRescued)
        os.kill(child, 0)  # It still lives.

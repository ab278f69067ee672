"""The notifications to systemd, as a socket receives them in its place."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted, JobStarted, LoopBlocked, WorkerStarted, WorkerStopped
from tests.cli.test_worker import WAIT
from tests.engine.conftest import MakeWorker
from tests.engine.liveness.test_loop_watchdog import Blocker, blocker, elsewhere
from tests.support.cli import appears, started, write
from tests.support.seen import Seen
from tests.support.waiting import wait_until

__all__ = ["blocker"]

SOON = "200000"  # microseconds: how often systemd wants a sign of life


class FakeSystemd:
    """A datagram socket, with the lines that it has received."""

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(name)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while text := self._socket.recv(4096).decode():
            self.lines += text.split("\n")

    def of(self, beginning: str) -> list[str]:
        """The lines that begin so."""
        return [line for line in self.lines.copy() if line.startswith(beginning)]

    async def hears(self, beginning: str, count: int = 1) -> None:
        """Wait until so many lines have begun so."""
        await wait_until(lambda: len(self.of(beginning)) >= count, description=f"{count} x {beginning}: {self.lines}")

    def close(self) -> None:
        """End the thread by an empty datagram."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


@contextmanager
def systemd_at(name: str) -> Iterator[FakeSystemd]:
    """A socket that receives notifications."""
    fake = FakeSystemd(name)
    try:
        yield fake
    finally:
        fake.close()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSystemd]:
    """The environment of a unit with Type=notify and WatchdogSec."""
    name = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.setenv("WATCHDOG_USEC", SOON)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with systemd_at(name) as fake:
        yield fake


@task
async def unused() -> None:
    """A worker needs a task."""


async def test_a_worker_is_ready_lives_and_stops(
    client: Client, make_worker: MakeWorker, seen: Seen, systemd: FakeSystemd
) -> None:
    """In this order; while handlers finish, it asks for more time."""
    goes = asyncio.Event()

    @task
    async def wait() -> None:
        await goes.wait()

    worker = make_worker(wait, grace=600)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        worker_id = (await seen.wait_for(WorkerStarted)).worker_id
        await systemd.hears("READY=1")
        await systemd.hears("WATCHDOG=1", 3)
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        await systemd.hears(f"STATUS=worker {worker_id} runs 1 of 10 jobs")
        group.start_soon(worker.stop)
        await systemd.hears("EXTEND_TIMEOUT_USEC=15000000", 2)
        goes.set()

    assert [1, 1] == [len(systemd.of(each)) for each in ("READY=1", "STOPPING=1")]
    assert systemd.lines.index("READY=1") < systemd.lines.index("STOPPING=1")


async def test_a_blocked_loop_gives_no_sign_of_life_until_it_answers(
    client: Client, make_worker: MakeWorker, seen: Seen, systemd: FakeSystemd, blocker: Blocker
) -> None:
    """systemd then restarts the worker."""
    async with elsewhere(make_worker(blocker.task, blocked_after=0.1)):
        await seen.wait_for(WorkerStarted)
        await client.add_job("block")
        counts: list[int] = []

        async def is_silent() -> bool:
            counts.append(len(systemd.of("WATCHDOG=1")))
            await anyio.sleep(float(SOON) / 1_000_000)
            return counts[-3:] == [counts[-1]] * 3 and blocker.runs == 1

        await wait_until(is_silent, description="no sign of life")
        blocker.leave.set()
        await seen.wait_for(LoopBlocked)
        await systemd.hears("WATCHDOG=1", counts[-1] + 2)


@pytest.mark.parametrize("words", [["--http", "127.0.0.1:0"], ["--grace", "1h"]])
async def test_the_command_notifies_by_an_abstract_socket_too(
    dsn: str, schema: str, client: Client, tmp_path: Path, words: list[str]
) -> None:
    """systemd names its socket so in containers; without a watchdog there are no signs of life."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    name = f"asyncq-{os.getpid()}-{schema}"
    with systemd_at(f"\0{name}") as fake:
        command = ["worker", "--schema", schema, *words]
        with started(tmp_path, *command, DATABASE_URL=dsn, NOTIFY_SOCKET=f"@{name}") as process:
            await fake.hears("READY=1")
            await client.add_job("wait")
            await appears(tmp_path / "running")
            process.signal(signal.SIGTERM)
            await fake.hears("STOPPING=1")
            (tmp_path / "go").touch()
            code = await process.end()

    assert (0, []) == (code, fake.of("WATCHDOG"))


async def test_a_group_notifies_once_for_all(dsn: str, schema: str, client: Client, tmp_path: Path) -> None:
    """systemd wants to hear the main process alone."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    name = str(tmp_path / "notify")
    with systemd_at(name) as fake:
        command = ["worker", "--schema", schema, "--processes", "2"]
        with started(tmp_path, *command, DATABASE_URL=dsn, NOTIFY_SOCKET=name) as process:
            await process.says("takes jobs of 1 tasks")
            process.signal(signal.SIGTERM)
            code = await process.end()

    assert (0, ["READY=1", "STOPPING=1"]) == (code, fake.lines)


@pytest.mark.parametrize(
    ("socket_name", "watchdog"), [("", SOON), ("relative", SOON), ("/nowhere/at/all", SOON), ("/nowhere", "soon")]
)
async def test_an_environment_that_is_not_of_systemd_does_no_harm(
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
    socket_name: str,
    watchdog: str,
) -> None:
    """A shell below a unit may have inherited it. The worker runs its jobs, and stops in order."""
    monkeypatch.setenv("NOTIFY_SOCKET", socket_name)
    monkeypatch.setenv("WATCHDOG_USEC", watchdog)
    job = await client.add_job(unused)
    await make_worker(unused).run_once(handle_signals=True)

    assert [job.id] == [event.job_id for event in seen.of(JobCompleted)]
    assert 1 == len(seen.of(WorkerStopped))


async def test_a_worker_of_a_service_notifies_nobody(make_worker: MakeWorker, seen: Seen, systemd: FakeSystemd) -> None:
    """The service does so itself, when it is ready."""
    async with make_worker(unused).start():
        await seen.wait_for(WorkerStarted)
    assert [] == systemd.lines

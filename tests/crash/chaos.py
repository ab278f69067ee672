"""Chaos by seed: worker processes under load, while what can be killed is killed; a seed deals its blows again."""

import asyncio
import itertools
import random
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from pathlib import Path

import anyio
import anyio.to_thread
import asyncpg

from asyncq import Client, StoreError
from asyncq.server import Server
from tests.crash.chaos_worker import LEASE_S, note
from tests.crash.ledger import Fate, Run, read

CHECKOUT = Path(__file__).parents[2]
WORKERS = 3
QUEUES = (None, None, None, "a", "b")
# What happens, and how often.
BLOWS = {"kill": 4, "stop": 3, "stall": 1, "terminate": 3, "crash": 2, "restart": 1}


class Chaos:
    """A server, worker processes, a client that adds, and somebody who breaks things.

    Args:
        server: The server; it is killed.
        folder: Where ledgers and logs are written.
        seed: Chooses the blows.

    Attributes:
        added: Jobs whose add was committed.
        blows: What was done, in order.
        fates: What was done to each process.
        deserters: Processes that ended by themselves after their first job; before it, no server may have been there.
    """

    def __init__(self, server: Server, folder: Path, seed: int) -> None:
        self._server = server
        self._folder = folder
        self._chance = random.Random(seed)
        self._processes: dict[int, Process] = {}
        self._names = itertools.count()
        self.added: set[int] = set()
        self.blows: list[str] = []
        self.fates: dict[int, Fate] = {}
        self.deserters: list[int] = []

    async def reign(self, seconds: float) -> None:
        """Deal blows for so long, then let all jobs end, and the workers stop in order."""
        for _ in range(WORKERS):
            await self._start()
        async with anyio.create_task_group() as group:
            group.start_soon(self._add_for_ever)
            group.start_soon(self._replace_for_ever)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await anyio.sleep(self._chance.uniform(0.1, 1.0))
                [blow] = self._chance.choices([*BLOWS], [*BLOWS.values()])
                self.blows.append(blow)
                await getattr(self, f"_{blow}")()
            group.cancel_scope.cancel()

    async def end(self) -> None:
        """Stop the workers in order."""
        for name, process in [*self._processes.items()]:
            process.terminate()
            await process.wait()
            self.fates[name].died = time.monotonic_ns()

    def runs(self) -> list[Run]:
        """What the handlers wrote down."""
        return read((name, self._path(name, "ledger"), fate) for name, fate in self.fates.items())

    def _path(self, name: int, kind: str) -> Path:
        return self._folder / f"worker-{name}.{kind}"

    async def _start(self) -> None:
        name = next(self._names)
        self._path(name, "ledger").touch()
        with self._path(name, "log").open("wb") as log:
            words = ["-m", "tests.crash.chaos_worker", self._server.dsn, str(self._path(name, "ledger"))]
            self._processes[name] = await create_subprocess_exec(
                sys.executable, *words, cwd=CHECKOUT, stdin=DEVNULL, stdout=log, stderr=log
            )
        self.fates[name] = Fate()

    async def _add_for_ever(self) -> None:
        async with Client(self._server.dsn) as client:
            for number in itertools.count():
                queue = QUEUES[number % len(QUEUES)]
                spec = note.job(number).with_options(idempotency_key=str(number), queue=queue)
                while number not in self.added:
                    try:
                        await client.add_jobs([spec])
                    except StoreError:
                        await anyio.sleep(0.05)
                    else:
                        self.added.add(number)
                await anyio.sleep(0.003)

    async def _replace_for_ever(self) -> None:
        """Start a process for each that has ended by itself, as a supervisor does."""
        while True:
            for name, process in [*self._processes.items()]:
                if process.returncode is not None:
                    del self._processes[name]
                    self.fates[name].died = time.monotonic_ns()
                    if self._path(name, "ledger").stat().st_size:
                        self.deserters.append(name)
                    await self._start()
            await anyio.sleep(0.1)

    # The blows

    async def _kill(self) -> None:
        """A worker process dies; a new one comes, as under a supervisor."""
        name = self._some_worker()
        process = self._processes.pop(name)
        process.kill()
        await process.wait()
        self.fates[name].died = time.monotonic_ns()
        await self._start()

    async def _stop(self) -> None:
        """A worker process stands still, for less than its grace."""
        await self._stand_still(self._chance.uniform(0.05, 0.4))

    async def _stall(self) -> None:
        """A worker process stands still for longer than its lease: others take over."""
        name, began = await self._stand_still(LEASE_S * 2)
        self.fates[name].stalled.append((began, time.monotonic_ns()))

    async def _stand_still(self, seconds: float) -> tuple[int, int]:
        name = self._some_worker()
        process = self._processes[name]
        began = time.monotonic_ns()
        process.send_signal(signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)
        return name, began

    def _some_worker(self) -> int:
        return self._chance.choice([name for name, process in self._processes.items() if process.returncode is None])

    async def _terminate(self) -> None:
        """The server ends some connections, or all."""
        share = self._chance.choice([0.2, 0.5, 1.0])
        try:
            connection = await asyncpg.connect(self._server.dsn)
        except (OSError, asyncpg.PostgresError):
            return  # It has just been started, and is not ready.
        try:
            pids = [
                row["pid"]
                for row in await connection.fetch(
                    "select pid from pg_stat_activity where application_name like 'asyncq %' order by pid"
                )
            ]
            chosen = [pid for pid in pids if self._chance.random() < share]
            await connection.execute("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", chosen)
        finally:
            await connection.close()

    async def _crash(self) -> None:
        """The server dies without a word, and is started again."""
        await anyio.to_thread.run_sync(self._server.kill)
        await anyio.sleep(self._chance.choice([0.0, 0.2, 1.0]))
        await anyio.to_thread.run_sync(self._server.restart)

    async def _restart(self) -> None:
        """The server is restarted in order."""
        await anyio.to_thread.run_sync(self._server.restart)


async def wait_for_the_end(client: Client, limit_s: float) -> None:
    """Wait until no job is left."""
    async with asyncio.timeout(limit_s):
        while True:
            try:
                if not await client.admin.list_jobs(limit=1):
                    return
            except StoreError:
                pass
            await anyio.sleep(0.1)

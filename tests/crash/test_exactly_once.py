"""Transactional tasks and each `tx_step` work exactly once, although processes, connections and the server are killed.

A control does the same work without the option. It must repeat some, or the kills hit nothing.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, JobSpec, StoreError
from asyncq.server import Server, start
from tests.crash import summary
from tests.crash.counting import ACCOUNTS, LEASE_S, create_ledger, sums
from tests.support.disk import roomy_folder
from tests.support.faults import Link, link_to
from tests.support.waiting import wait_until

SCHEMA = "asyncq"
SEED = int(os.environ.get("ASYNCQ_CHAOS_SEED", "7"))
WORKERS = 3
BACKLOG = 120
PAUSE_S = 0.08
STALL_S = 3 * LEASE_S
CHECKOUT = Path(__file__).parents[2]


class Killed:
    """The world of the test: a server, a way to it, workers in processes; and how to hit each of them.

    Attributes:
        dsn: The direct way to the server.
        hits: How many kills of each kind have hit something.
        ends: The exit codes of the workers that have ended.
    """

    def __init__(self, server: Server, link: Link, rng: random.Random) -> None:
        self._server = server
        self._link = link
        self._rng = rng
        self.dsn = server.dsn
        self._workers: list[asyncio.subprocess.Process] = []
        self.hits: Counter[str] = Counter()
        self.ends: list[int] = []

    @property
    def lost_commits(self) -> int:
        """How many connections ended between COMMIT sent and answered."""
        return self._link.lost_commits

    async def look(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Ask the server, by the direct way, once it is there."""
        while True:
            db = None
            try:
                db = await asyncpg.connect(self.dsn)
                return await db.fetch(sql, *args)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                await asyncio.sleep(0.02)
            finally:
                if db is not None:
                    db.terminate()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        """A direct connection, while nothing is killed."""
        db = await asyncpg.connect(self.dsn)
        yield db
        await db.close(timeout=5)

    async def hire(self) -> None:
        """Start a worker."""
        self._workers.append(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.crash.counting",
                self._link.dsn,
                SCHEMA,
                cwd=CHECKOUT,
                stderr=asyncio.subprocess.DEVNULL,
            )
        )

    async def dismiss(self) -> None:
        """Stop all workers in order."""
        for worker in self._workers:
            _wake(worker)
            if worker.returncode is None:
                worker.terminate()
        for worker in self._workers:
            self.ends.append(await worker.wait())

    async def kill_worker(self) -> None:
        """SIGKILL, and another one in its place."""
        worker = self._workers.pop(self._rng.randrange(len(self._workers)))
        worker.kill()
        self.ends.append(await worker.wait())
        self.hits["worker"] += 1
        await self.hire()

    async def stall_worker(self) -> None:
        """Pause a worker by SIGSTOP for longer than its lease, while other faults happen; then it continues."""
        worker = self._rng.choice(self._workers)
        worker.send_signal(signal.SIGSTOP)
        self.hits["stall"] += 1
        asyncio.get_running_loop().call_later(STALL_S, _wake, worker)

    async def kill_connection(self) -> None:
        """The server ends a connection on which a handler works."""
        rows = await self.look("""
            select pg_terminate_backend(pid) from (
              select pid from pg_stat_activity
              where application_name ~ '^asyncq (handlers|worker)' and xact_start is not null
              order by random() limit 1) as hit""")
        self.hits["connection"] += len(rows)

    async def kill_server(self) -> None:
        """kill -9, and start it on its data again."""
        await run_sync(self._server.kill)
        await run_sync(self._server.restart)
        self.hits["server"] += 1

    async def cut(self) -> None:
        """The link cuts a connection where a handler commits."""
        before = sum(self._link.cuts.values())
        self._link.cut_at_commit("handlers", self._rng.choice(["before", "sent", "after"]))
        await wait_until(lambda: sum(self._link.cuts.values()) > before, description="a COMMIT to be cut", limit_s=30)
        self.hits["commit"] += 1


def _wake(worker: asyncio.subprocess.Process) -> None:
    """Continue a paused worker, if it lives."""
    if worker.returncode is None:
        worker.send_signal(signal.SIGCONT)


@asynccontextmanager
async def world(seed: int) -> AsyncIterator[Killed]:
    """A server and workers; all are removed at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", roomy_folder())
        server = await run_sync(start)
    try:
        await Client(server.dsn, schema=SCHEMA).migrate()
        async with link_to(server.dsn) as link:
            made = Killed(server, link, random.Random(seed))
            try:
                for _ in range(WORKERS):
                    await made.hire()
                yield made
            finally:
                await made.dismiss()
    finally:
        await run_sync(server.stop)


async def keep_busy(killed: Killed, client: Client, until: asyncio.Event) -> Counter[str]:
    """Add jobs of the three tasks as they are worked off. Returns how many of each."""
    added: Counter[str] = Counter()
    while not until.is_set():
        ((waiting,),) = await killed.look("select count(*) from asyncq.jobs")
        if waiting < BACKLOG:
            names = ["once", "stepped", "at_least_once"] * (BACKLOG // 6)
            specs = [JobSpec(task=name, payload=f'{{"account": {random.randrange(ACCOUNTS)}}}') for name in names]
            # Made again if the server died meanwhile: the number of jobs has to be known exactly.
            turn = sum(added.values())
            await add_surely(client, [spec.with_options(idempotency_key=f"{turn}:{i}") for i, spec in enumerate(specs)])
            added.update(names)
        await asyncio.sleep(0.01)
    return added


async def add_surely(client: Client, specs: list[JobSpec]) -> None:
    """Add jobs, however often the server dies meanwhile."""
    while True:
        try:
            await client.add_jobs(specs)
            return
        except StoreError:
            await asyncio.sleep(0.02)


FEW = {"worker": 2, "stall": 1, "connection": 6, "server": 1, "commit": 9}
MANY = {"worker": 40, "stall": 10, "connection": 90, "server": 10, "commit": 70}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("planned", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many")])
@pytest.mark.crash
async def test_the_sum_is_exact_over_kills_of_everything(planned: dict[str, int]) -> None:
    """Kills hit workers, connections, the server, and connections between COMMIT and its answer.

    Workers are paused too.
    """
    seed = SEED
    async with world(seed) as killed:
        async with killed.connected() as db:
            await create_ledger(db, SCHEMA)
        kills: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("worker", killed.kill_worker),
            ("stall", killed.stall_worker),
            ("connection", killed.kill_connection),
            ("server", killed.kill_server),
            ("commit", killed.cut),
        ]
        turns = [(name, kill) for name, kill in kills for _ in range(planned[name])]
        random.Random(seed).shuffle(turns)
        enough = asyncio.Event()
        async with Client(killed.dsn, schema=SCHEMA) as client, asyncio.TaskGroup() as group:
            adding = group.create_task(keep_busy(killed, client, enough))
            for name, kill in turns:
                before = killed.hits[name]
                while killed.hits[name] == before:
                    await kill()
                    await asyncio.sleep(PAUSE_S)
            enough.set()

        async def is_done() -> bool:
            ((left,),) = await killed.look("select count(*) from asyncq.jobs")
            return left == 0

        await wait_until(is_done, description="all jobs to end", limit_s=60)
        async with killed.connected() as db:
            counted = await sums(db, SCHEMA)
        added, lost_commits = adding.result(), killed.lost_commits
    print(f"\nseed {seed}: {dict(killed.hits)}, {lost_commits} between COMMIT and its answer; {added} -> {counted}")
    hits = dict(killed.hits + Counter({"lost commit": lost_commits}))
    summary.tell({"jobs": added.total(), "runs": sum(counted.values()), "violations": 0, "hits": hits})

    assert (added["once"], added["stepped"]) == (counted["once"], counted["stepped"])
    assert added["at_least_once"] < counted["at_least_once"]
    assert planned == killed.hits
    # SIGTERM ends a process whose worker has not begun.
    assert {-signal.SIGKILL, -signal.SIGTERM, 0} >= set(killed.ends)
    assert lost_commits >= planned["commit"] // 3

"""A server of a test's own, which may be killed, with workers on it whose runs are counted."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import anyio
import asyncpg
import pytest

from asyncq import Client, Task, task
from asyncq.server import Server, start
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from tests.support.disk import roomy_folder
from tests.support.waiting import wait_until

SCHEMA = "asyncq"


@contextmanager
def own_server(settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server that no other test uses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", roomy_folder())
        server = start(fsync=False, settings={"max_wal_size": "128MB", **(settings or {})})
    with server:
        yield server


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A plain connection, to read tables and to cause faults."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "test"}, timeout=5)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


class Load:
    """Jobs whose runs are counted: none may be lost, none may run twice.

    Attributes:
        task: Their task.
        long: A task whose handler outlasts the outage: it runs until `leave` is set.
        runs: How often each has run, by its number.
        begun: How often a handler of `long` has begun.
        leave: Set when handlers of `long` may end.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.runs: Counter[int] = Counter()
        self.begun = 0
        self.leave = asyncio.Event()
        self.task: Task[...] = task(name="count")(self._count)
        self.long: Task[...] = task(name="outlast")(self._outlast)

    async def _count(self, number: int) -> None:
        self.runs[number] += 1
        await anyio.sleep(0.005)

    async def _outlast(self) -> None:
        self.begun += 1
        await self.leave.wait()

    async def install(self) -> None:
        """Install the schema."""
        await migrate(Database(self._dsn, SCHEMA))

    async def add(self, numbers: range) -> None:
        """Add jobs with these numbers, and one whose handler runs until these have ended."""
        async with Client(self._dsn, schema=SCHEMA) as client:
            await client.add_job(self.long)
            await client.add_jobs([self.task.job(number=number) for number in numbers])

    async def reached(self, count: int) -> None:
        """Wait until so many jobs have run."""
        await wait_until(lambda: len(self.runs) >= count, description=f"{count} jobs to have run", limit_s=20)

    async def written(self) -> None:
        """Let the long handler end, and wait until no job is left in the table."""
        self.leave.set()

        async def is_empty() -> bool:
            try:
                async with connected(self._dsn) as db:
                    return not await db.fetchval(f"select count(*) from {SCHEMA}._jobs")
            except (OSError, asyncpg.PostgresError):
                return False

        await wait_until(is_empty, description="every completion to be written", limit_s=20)

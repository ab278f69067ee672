"""A server of our own, and databases on it that are gone after their run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from asyncq import Client
from asyncq.server import Server
from asyncq.store.database import Database as StoreDatabase
from asyncq.store.statements import DEFAULT_SCHEMA
from benchmarks.suite.processes import TICKS_PER_S, children, cpu_s, fields

INSTALLED = "installed"
ENDED = 0  # no process has this number


class Database:
    """A database with the schema and no jobs.

    Args:
        dsn: The way to it.
        connection: A connection to it.
        place: Its server.
    """

    def __init__(self, dsn: str, connection: asyncpg.Connection, place: Place) -> None:
        self.dsn = dsn
        self.connection = connection
        self.place = place

    async def is_empty(self) -> bool:
        """Whether no job is left."""
        return not await self.connection.fetchval("select exists (select from asyncq.jobs)")

    async def tidy(self) -> None:
        """Let the server vacuum and checkpoint now, as it would at any time."""
        await self.connection.execute("vacuum analyze asyncq._jobs")
        await self.connection.execute("checkpoint")
        await asyncio.to_thread(os.sync)

    async def wal(self) -> int:
        """The bytes of WAL that were written so far."""
        return int(await self.connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


class Place:
    """A server of ours.

    Args:
        server: The server.
        chief: A connection to it.
    """

    def __init__(self, server: Server, chief: asyncpg.Connection) -> None:
        self._server = server
        self._chief = chief
        self._made = 0
        self.folder = server.folder

    def dsn(self, database: str) -> str:
        """The way to one of the databases."""
        return self._server.dsn.replace("/postgres?", f"/{database}?")

    @asynccontextmanager
    async def database(self) -> AsyncGenerator[Database]:
        """A fresh one."""
        self._made += 1
        name = f"run_{self._made}"
        await self._chief.execute(f'create database "{name}" template {INSTALLED} strategy file_copy')
        try:
            connection = await connect(self.dsn(name))
            try:
                yield Database(self.dsn(name), connection, self)
            finally:
                await connection.close()
        finally:
            await self._chief.execute(f'drop database "{name}" with (force)')

    def processes(self) -> dict[int, float]:
        """The server's processes -> seconds of CPU that each has used; `ENDED`: of those that are gone."""
        by_process = {pid: cpu_s(pid) for pid in children(self._server.pid)}
        return by_process | {ENDED: ended_cpu_s(self._server.pid)}

    @asynccontextmanager
    async def slow_disk(self, delay_ms: float) -> AsyncGenerator[None]:
        """Let each write of the WAL to the disk wait first: as if the disk took so much longer."""
        await self._set(f"{delay_ms * 1000:.0f}", "0")
        try:
            yield
        finally:
            await self._set("0", "5")

    async def _set(self, delay_us: str, siblings: str) -> None:
        await self._chief.execute(f"alter system set commit_delay = {delay_us}")
        await self._chief.execute(f"alter system set commit_siblings = {siblings}")
        await self._chief.execute("select pg_reload_conf()")
        await asyncio.sleep(0.2)


async def connect(dsn: str) -> asyncpg.Connection:
    """A connection that plans its statements as a worker does."""
    return await StoreDatabase(dsn, DEFAULT_SCHEMA).connect("scale", generic_plans=True)


def ended_cpu_s(pid: int | None) -> float:
    """Seconds of CPU of the children of a process that have ended."""
    found = fields(pid or 0)
    return (int(found[13]) + int(found[14])) / TICKS_PER_S if found else 0.0


@asynccontextmanager
async def place(server: Server) -> AsyncGenerator[Place]:
    """Our way to a server."""
    chief = await asyncpg.connect(server.dsn)
    try:
        made = Place(server, chief)
        await chief.execute(f"create database {INSTALLED}")
        await Client(made.dsn(INSTALLED)).migrate()
        yield made
    finally:
        await chief.close()

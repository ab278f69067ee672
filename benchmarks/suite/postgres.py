"""Databases for single runs: each is a copy of a filled one, and is gone after its run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from asyncq.server import Server
from benchmarks.peers.peer import Peer
from benchmarks.suite.child import play
from benchmarks.suite.processes import children, cpu_s

# A server that has run for a while has files to write its log into; a new one makes each of them, 10 ms every 16 MB.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "max_connections": "400"}
"""All else is as PostgreSQL ships it: fsync and synchronous_commit are on."""


class Postgres:
    """A server, and the databases that runs begin with.

    Args:
        server: A server of our own.
        chief: A connection to it.
    """

    def __init__(self, server: Server, chief: asyncpg.Connection) -> None:
        self._server = server
        self._chief = chief
        self._filled: set[str] = set()
        self.version = server.version

    def dsn(self, database: str) -> str:
        """The way to one of the databases."""
        return self._server.dsn.replace("/postgres?", f"/{database}?")

    @asynccontextmanager
    async def copy(self, peer: Peer, variant: str, jobs: int, **wish: Any) -> AsyncGenerator[Table]:
        """A fresh copy of a database that holds so many jobs; filled and vacuumed when it is first asked for.

        An empty one is left as its queue created it. A table is not analysed before its first row, and a planner that
        has counted no row would read the whole table for each of the first thousands.
        """
        settings = {**peer.variants[variant], "jobs": jobs, **wish}
        name = "_".join([peer.name, variant, str(jobs), *(f"{key}_{value}" for key, value in sorted(wish.items()))])
        if name not in self._filled:
            await self._chief.execute(f'drop database if exists "{name}" with (force)')  # one that was not finished
            await self._chief.execute(f'create database "{name}"')
            await play(peer, "fill", self.dsn(name), **settings)
            if jobs:
                await self._tidy(name)
            self._filled.add(name)
        await self._chief.execute(f'create database run template "{name}" strategy file_copy')
        try:
            await self._chief.execute("checkpoint")
            await asyncio.to_thread(os.sync)
            connection = await asyncpg.connect(self.dsn("run"))
            try:
                yield Table(self.dsn("run"), connection, peer)
            finally:
                await connection.close()
        finally:
            await self._chief.execute("drop database run with (force)")

    def cpu_s(self) -> float:
        """Seconds of CPU that the server's processes have used, those that still live."""
        return sum(cpu_s(pid) for pid in children(self._server.pid))

    async def _tidy(self, name: str) -> None:
        connection = await asyncpg.connect(self.dsn(name))
        await connection.execute("vacuum analyze")
        await connection.close()


class Table:
    """The jobs of one run.

    Args:
        dsn: The way to them.
        connection: A connection to their database.
        peer: Whose they are.
    """

    def __init__(self, dsn: str, connection: asyncpg.Connection, peer: Peer) -> None:
        self.dsn = dsn
        self.connection = connection
        assert isinstance(peer.left, str)
        self._left = peer.left

    async def is_empty(self, among: str = "") -> bool:
        """Whether every job is settled; of those that a further condition leaves."""
        return await self.connection.fetchval(f"select 1 {self._left} {among} limit 1") is None

    async def count(self, among: str = "") -> int:
        """Count the unsettled jobs, or those that also meet a further condition."""
        return await self.connection.fetchval(f"select count(*) {self._left} {among}")

    async def wal_bytes(self) -> int:
        """The bytes of WAL that the server has written so far."""
        return await self.connection.fetchval("select (pg_current_wal_insert_lsn() - '0/0')::int8")


@asynccontextmanager
async def postgres(server: Server) -> AsyncGenerator[Postgres]:
    """Our way to a server."""
    chief = await asyncpg.connect(server.dsn)
    try:
        yield Postgres(server, chief)
    finally:
        await chief.close()

"""The connection of a heartbeat. While it lives it holds the worker's advisory lock; the server frees it at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import asyncpg
import msgspec

from asyncq.domain.errors import StoreUnavailable
from asyncq.domain.share import Choice
from asyncq.store.arrays import array_text
from asyncq.store.database import Database, hang_up
from asyncq.store.failures import calling, on_our_own
from asyncq.store.migrate import check_release, newest
from asyncq.store.workers import Cancelled, cancelled_jobs

# The state of a worker, read on a server that refuses writes. Known means that its row exists, and the server is no
# standby. Gone means that a rescue declared the worker dead. A standby may have old rows.
Found = Literal["known", "gone", "standby"]


class Watched(msgspec.Struct, frozen=True):
    """The result of a check of the other workers.

    Attributes:
        workers: How many there are, this one included.
        place: The number of workers before this one.
        clock_s: The server's time, for the order of their checks.
        grace_left_s: The time left for the first worker with a free lock to send a beat; None without such a worker.
    """

    workers: int
    place: int
    clock_s: float
    dead: bool
    grace_left_s: float | None


class HeartbeatConnection:
    """One connection from its opening to its end; a new connection needs a new object.

    `ended` is called in the event loop when the connection ends, unless this object closed it.

    Attributes:
        held_id: The worker whose lock this connection holds; 0 for none.
        is_proven: Whether a beat was written while it held that lock.
    """

    def __init__(self, database: Database, ended: Callable[[HeartbeatConnection], None]) -> None:
        self._database = database
        self._ended = ended
        self._connection: asyncpg.Connection | None = None
        self.held_id = 0
        self.is_proven = False
        self._is_pooled = False
        self._backend = 0  # the server's process behind the connection; 0 if each transaction may have another one
        self._known = newest()

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> None:
        """Connect. If cancelled, no connection stays open."""
        connection = await self._database.connect("heartbeat")
        if self._database.has_session_locks:
            try:
                with on_our_own(), calling(self._database.schema):
                    # A pooler by session names a process at the login that differs from the one that answers.
                    self._backend = await connection.fetchval("select pg_catalog.pg_backend_pid()")
            except BaseException:
                connection.terminate()
                raise
        self._connection = connection
        connection.add_termination_listener(self._terminated)

    def _terminated(self, _: object) -> None:
        self.held_id = 0
        self._ended(self)

    async def register(
        self, *, lease_s: float, pid: int, concurrency: int, host: str, tasks: Sequence[str], choice: Choice
    ) -> int:
        """Register a worker, take its lock, and return its id, never used before."""
        chosen = (choice.names, list(choice.exclude))
        args = (lease_s, pid, concurrency, host, list(tasks), self._backend, *chosen)
        (row,) = await self._fetch("register_worker", *args)
        worker_id = int(row["id"])
        self._take(worker_id, row["holds"])
        self.is_proven = bool(self.held_id)
        return worker_id

    async def check_release(self) -> None:
        """Raise SchemaTooNew if a breaking migration was applied."""
        await check_release(self._opened(), self._database.schema, self._known)

    async def hold(self, worker_id: int) -> bool:
        """Take the worker's lock, unless this connection has it; False without the lock, as always behind a pooler."""
        if self.held_id != worker_id and not self._is_pooled:
            (row,) = await self._fetch("lock_worker", worker_id, self._backend)
            self._take(worker_id, row["holds"])
        return self.held_id == worker_id

    def _take(self, worker_id: int, holds: bool | None) -> None:
        self.held_id = worker_id if holds else 0
        self.is_proven = False
        self._is_pooled = holds is None

    async def beat(self, worker_id: int, named: Sequence[str], stuck: Sequence[int]) -> Cancelled:
        """Send a beat, see `workers.beat`. After a beat with the lock, a free lock means that the worker is dead."""
        holds = self.held_id == worker_id
        rows = await self._fetch("beat", worker_id, holds, list(named), array_text(stuck))
        self.is_proven = holds
        return cancelled_jobs(rows)

    async def find(self, worker_id: int) -> Found:
        """Read whether a rescue has declared a worker dead."""
        (row,) = await self._fetch("find_worker", worker_id)
        return row["found"]

    async def note_block(self, worker_id: int, job_id: int, token: int, error: str) -> None:
        """Note in a job that it blocks the event loop, if the worker holds it with this token."""
        await self._fetch("note_block", worker_id, job_id, token, error)

    async def watch(self, worker_id: int) -> Watched:
        (row,) = await self._fetch("watch_workers", worker_id)
        return Watched(*row)

    async def remove(self, worker_id: int) -> None:
        """Forget a worker that holds no claim; see `workers.remove`."""
        await self._fetch("remove_worker", worker_id)

    def drop(self) -> None:
        """Close the connection without a message to the server, for a server that does not answer."""
        if self._connection is not None:
            self._forget().terminate()

    async def close(self) -> None:
        if self._connection is not None:
            await hang_up(self._forget())

    def _forget(self) -> asyncpg.Connection:
        connection, self._connection = self._opened(), None
        self.held_id = 0
        connection.remove_termination_listener(self._terminated)
        return connection

    def _opened(self) -> asyncpg.Connection:
        if self._connection is None:
            raise StoreUnavailable("the connection of the heartbeat is closed")
        return self._connection

    async def _fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        connection = self._opened()
        with on_our_own(), calling(self._database.schema):
            try:
                return await connection.fetch(self._database.query(name), *args)
            except asyncpg.InFailedSQLTransactionError:
                # This connection cannot be used again. After another refused statement it can, and keeps the lock.
                connection.terminate()
                raise

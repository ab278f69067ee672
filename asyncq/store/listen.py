"""The LISTEN connection: calls a function for each notification, and reports when the connection breaks."""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from asyncq.domain.errors import ConfigurationError, UnsupportedServer
from asyncq.store.arrays import array_text
from asyncq.store.database import CONNECT_TIMEOUT_S, Database
from asyncq.store.failures import calling, on_our_own


def channel(schema: str) -> str:
    """Return the channel of adds; each schema has its own."""
    return f"{schema}:jobs"


def listen_database(database: Database, listen_dsn: str | None) -> Database | None:
    """The database for a LISTEN connection; None if there is only a pooler. ConfigurationError for a bad DSN."""
    if listen_dsn is None:
        return None if database.is_pooled else database
    found = Database(listen_dsn, database.schema)
    if found.is_pooled:
        raise ConfigurationError("listen_dsn must lead directly to the server: leave statement_cache_size=0 out")
    return found


ALL = "all"  # the text of a notification after which each worker has to fetch, not only the one on call
ECHO_S = 2.0  # how long a notification may take through a pooler

# The message of asyncq._cancel_running: the worker's id, the job's id, the token of the claim. Any role can send it.
_CANCELLATION = re.compile(r"([0-9]{1,10}) ([0-9]{1,19}) -?[0-9]{1,19}", re.ASCII)

TO_ALL = "0 0 0"  # a message of the same channel, for all workers: send a beat now


def cancel_channel(schema: str) -> str:
    """Return the channel that reports running jobs that were cancelled."""
    return f"{schema}:cancel"


class OnCallStatus(msgspec.Struct, frozen=True):
    """The state of the on-call turn, read by a worker that is about to sleep.

    Attributes:
        is_mine: Whether this connection is on call. If not, and `adds_settled` is true, another one is.
        adds_settled: Whether all adds that sent no notification have ended, so that one more fetch finds their jobs.
        is_mixed: Whether the workers differ in the tasks that they run or in the flags that they forbid.
    """

    is_mine: bool
    adds_settled: bool
    is_mixed: bool


class Listening:
    """A LISTEN connection; its worker may be on call until `broken` is set. Adds send jobs to `secret_channel`."""

    def __init__(self, database: Database, connection: asyncpg.Connection) -> None:
        self._database = database
        self._connection = connection
        # With this name a role could send jobs to the worker, or read payloads: so it cannot be guessed.
        self.secret_channel = f"asyncq:{secrets.token_hex(16)}"
        self._holds = self._speaks_for = 0
        self._free = asyncio.Lock()
        self.broken = asyncio.Event()
        connection.add_termination_listener(lambda _: self.broken.set())

    async def probe(self, worker_id: int, timeout_s: float) -> None:
        """Check that the server answers in time, or raise StoreUnavailable; take the lock of the worker's listener."""
        async with self._free:
            with on_our_own(), calling(self._database.schema):
                if worker_id == self._speaks_for or not worker_id:
                    await self._connection.execute("select", timeout=timeout_s)
                    return
                query = self._database.query("lock_listener")
                if await self._connection.fetchval(query, worker_id, timeout=timeout_s):
                    self._speaks_for = worker_id

    async def go_on_call(self, *, was_mine: bool) -> OnCallStatus:
        """Go on call, unless another connection is; if this one was, only the state is read."""
        (row,) = await self._fetch("go_on_call", was_mine)
        return OnCallStatus(*row)

    async def leave_on_call(self, *, was_mine: bool, notify_all: bool) -> None:
        """End the turn on call; with `notify_all` each other worker fetches, and one goes on call."""
        await self._fetch("leave_on_call", was_mine, notify_all)

    async def open_slot(
        self, worker_id: int, token: int, acknowledged_token: int, task_ids: Iterable[int], batchable_ids: Iterable[int]
    ) -> bool | None:
        """Open the worker's hand-off slot for one job; this connection receives it, claimed by this new token.

        Returns whether the slot is open. False if the last hand-off was not received, or the worker was declared dead.
        None if no slot should be opened for a while: adds would read too many dead rows, or ids would repeat. After an
        error the slot may be open.
        """
        slot = worker_id, token, acknowledged_token, array_text(task_ids), array_text(batchable_ids)
        (row,) = await self._fetch("open_slot", *slot, self.secret_channel, self._holds != worker_id)
        is_open: bool | None = row["is_open"]
        if is_open is not False:
            self._holds = worker_id if is_open else 0
        return is_open

    def drop(self) -> None:
        self._connection.terminate()

    async def _fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        async with self._free:
            with on_our_own():
                return await self._database.fetch(self._connection, name, *args)


@asynccontextmanager
async def listening(
    database: Database,
    notified: Callable[[str], None],
    cancelled: Callable[[int, int], None],
    changed: Callable[[], None],
    look: Callable[[], None],
    handed: Callable[[str], None],
) -> AsyncGenerator[Listening]:
    """Listen until the block ends; the callbacks are called in the event loop.

    Args:
        notified: Jobs may be due. The text is `ALL`, or empty for the on-call worker.
        cancelled: A running job of a worker was cancelled; with the worker's id and the job's id.
        changed: Stored recurring items have changed.
        look: All workers have to send a beat now.
        handed: The worker's slot was filled; with the message of the add.

    Raises as `check_hearing`.
    """

    def on_jobs(_: object, __: object, ___: object, text: object) -> None:
        notified(str(text))

    def on_cancellation(_: object, __: object, ___: object, text: object) -> None:
        if text == TO_ALL:
            look()
        elif found := _CANCELLATION.fullmatch(str(text)):
            cancelled(int(found[1]), int(found[2]))

    def on_cron(*_: object) -> None:
        changed()

    def on_handoff(_: object, __: object, ___: object, text: object) -> None:
        handed(str(text))

    async with database.connected("listen") as connection:
        listening = Listening(database, connection)
        with on_our_own(), calling(database.schema):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await check_session(database, connection)
                await connection.add_listener(channel(database.schema), on_jobs)
                await connection.add_listener(cancel_channel(database.schema), on_cancellation)
                await connection.add_listener(f"{database.schema}:cron", on_cron)
                await connection.add_listener(listening.secret_channel, on_handoff)
        yield listening


async def check_session(database: Database, connection: asyncpg.Connection) -> None:
    """Check that notifications arrive; behind a pooler, from another connection."""
    if connection.get_server_pid() == await connection.fetchval("select pg_backend_pid()"):
        await check_hearing(connection, connection)
        return
    async with database.connected("echo") as other:
        await check_hearing(connection, other)


async def check_hearing(connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
    """Check that a notification of one connection arrives on another.

    UnsupportedServer if the server refuses LISTEN or NOTIFY. ConfigurationError if no notification arrives, as behind
    some poolers.
    """
    channel_name, echo = f"asyncq:echo:{secrets.token_hex(4)}", asyncio.Event()

    def heard(*_: object) -> None:
        echo.set()

    try:
        await connection.add_listener(channel_name, heard)
        await other.execute("select pg_catalog.pg_notify($1, '')", channel_name)
    except (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError) as error:
        raise UnsupportedServer(f"the server refuses LISTEN and NOTIFY: {error}") from error
    try:
        async with asyncio.timeout(ECHO_S):
            await echo.wait()
    except TimeoutError:
        raise ConfigurationError(
            "no notification arrives on the LISTEN connection: a pooler passes none on, or the server sends none; "
            "give listen_dsn=, a DSN that leads directly to the server, or listen=False"
        ) from None
    await connection.remove_listener(channel_name, heard)

"""Connections through a pooler that lends a server's session for one transaction at a time, as PgBouncer can.

There, settings, prepared statements, advisory locks and LISTEN are lost with the session. The driver also sends a
statement and its parameters in two messages. Between them a pooler may change the session, and the parameters would be
used for another client's statement. So each statement runs in its own transaction, which begins with the settings.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg

from asyncq.store.own import OwnConnection

HINT = (
    "if the DSN leads to a pooler that pools by transaction, add statement_cache_size=0 to it; "
    "else give a DSN that leads directly to the server"
)


class PooledConnection(OwnConnection):
    """An asyncpg connection that runs each statement in its own transaction, unless the caller has begun one."""

    prelude = "begin isolation level read committed"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Without this the driver sets jit in the session, see _introspect_types.
        self._server_caps: Any = self._server_caps._replace(jit=False)

    def begin_with(self, prelude: str) -> None:
        """Replace the statements that begin each transaction; a method, since a pool's proxy forwards no assignment."""
        self.prelude = prelude

    async def fetch(self, *args: Any, **options: Any) -> Any:
        async with self._at_once():
            return await super().fetch(*args, **options)

    async def fetchrow(self, *args: Any, **options: Any) -> Any:
        async with self._at_once():
            return await super().fetchrow(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        async with self._at_once():
            return await super().fetchval(*args, **options)

    async def fetchmany(self, *args: Any, **options: Any) -> Any:
        async with self._at_once():
            return await super().fetchmany(*args, **options)

    async def executemany(self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None) -> None:
        async with self._at_once():
            await super().executemany(command, args, timeout=timeout)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See asyncpg. A statement without parameters is one message, which no pooler splits."""
        if not args:
            return await super().execute(query, timeout=timeout)
        async with self._at_once():
            return await super().execute(query, *args, timeout=timeout)

    def get_reset_query(self) -> str:
        """Return nothing: no state is left in the session, and the reset would reach another one."""
        return ""

    async def _introspect_types(self, *args: Any, **options: Any) -> Any:
        """Read types, such as those of arrays, without jit, which would take seconds.

        The driver turns jit off for the whole session, and so for other clients of the pooler. Here the setting ends
        with a savepoint.
        """
        read = cast(Any, super())._introspect_types
        if not self.is_in_transaction():
            return await read(*args, **options)
        await super().execute("savepoint asyncq_types; set local jit = off")
        found: Any = await read(*args, **options)
        await super().execute("rollback to savepoint asyncq_types; release savepoint asyncq_types")
        return found

    @asynccontextmanager
    async def _at_once(self) -> AsyncGenerator[None]:
        """Run all messages of the block in one transaction, and so in one session of the server."""
        if self.is_in_transaction():
            yield
            return
        try:
            await super().execute(self.prelude)
            yield
            await super().execute("commit")
        except BaseException:
            await self._undo()
            raise

    async def _undo(self) -> None:
        """Roll back; after a cancelled statement the driver first asks the server to stop it."""
        if self.is_closed():
            return
        try:
            await super().execute("rollback", timeout=1.0)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            self.terminate()
        except asyncio.CancelledError:
            self.terminate()
            raise


def is_pooled(connection: asyncpg.Connection) -> bool:
    """Return whether a connection is pooled; `isinstance` of asyncpg's classes is true for any connection."""
    return PooledConnection in type(connection).__mro__


def prelude(settings: Mapping[str, str]) -> str:
    """Return the statements that begin a transaction with its own constant settings, as one message."""
    return f"begin isolation level read committed; {assignments('set local', settings)}"


def assignments(verb: str, settings: Mapping[str, str]) -> str:
    """Return the statements that set (`set local`: for the transaction) constant settings, as one message."""
    return "; ".join(f"{verb} {name} = {_value(text)}" for name, text in settings.items())


def _value(text: str) -> str:
    """Quote each name of a list, such as search_path."""
    return ", ".join(f"'{part.strip()}'" for part in text.split(","))

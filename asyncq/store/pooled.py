"""Connections through a pooler that lends a server's session for one transaction at a time, as PgBouncer can.

Nothing of a session lasts there: no setting, no prepared statement, no advisory lock, no LISTEN. And even without named
statements the driver sends a statement and its parameters one after the other; between the two a pooler may change the
session, and the parameters would meet somebody else's statement. So each statement gets a transaction of its own, which
brings the settings along.
"""

from __future__ import annotations

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
    """An asyncpg connection whose statements each run in one transaction, unless the caller has begun one.

    Attributes:
        prelude: How such a transaction begins.
    """

    prelude = "begin isolation level read committed"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Without this the driver sets jit in the session, see _introspect_types.
        self._server_caps: Any = self._server_caps._replace(jit=False)

    def begin_with(self, prelude: str) -> None:
        """Replace the statements that begin each transaction; a method, since a pool's proxy forwards no assignment."""
        self.prelude = prelude

    async def fetch(self, *args: Any, **options: Any) -> Any:
        """See asyncpg."""
        async with self._at_once():
            return await super().fetch(*args, **options)

    async def fetchrow(self, *args: Any, **options: Any) -> Any:
        """See asyncpg."""
        async with self._at_once():
            return await super().fetchrow(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        """See asyncpg."""
        async with self._at_once():
            return await super().fetchval(*args, **options)

    async def fetchmany(self, *args: Any, **options: Any) -> Any:
        """See asyncpg."""
        async with self._at_once():
            return await super().fetchmany(*args, **options)

    async def executemany(self, command: str, args: Iterable[Sequence[Any]], *, timeout: float | None = None) -> None:
        """See asyncpg."""
        async with self._at_once():
            await super().executemany(command, args, timeout=timeout)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """See asyncpg. Without parameters it is one message, which no pooler takes apart."""
        if not args:
            return await super().execute(query, timeout=timeout)
        async with self._at_once():
            return await super().execute(query, *args, timeout=timeout)

    def get_reset_query(self) -> str:
        """Nothing is left to be reset, and it would be done to some other session."""
        return ""

    async def _introspect_types(self, *args: Any, **options: Any) -> Any:
        """Read types, such as those of arrays, without jit, which would take seconds.

        The driver turns jit off by a setting of the session, and leaves it off where the prelude has it off: other
        programs would run without it. Here the setting ends with a savepoint.
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
        """One transaction, so one session of the server, for all messages of the block."""
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
        """Roll back; the driver asks the server to stop first if the statement was cancelled."""
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
    """Whether it is one of these; asyncpg's classes answer `isinstance` with yes for any connection."""
    return PooledConnection in type(connection).__mro__


def prelude(settings: Mapping[str, str]) -> str:
    """How a transaction begins that has settings of its own: in one message.

    Args:
        settings: Of the server; our own words, nothing that a user gave.
    """
    return f"begin isolation level read committed; {assignments('set local', settings)}"


def assignments(verb: str, settings: Mapping[str, str]) -> str:
    """Statements that set settings, to be sent as one message.

    Args:
        verb: `set`, or `set local` for the transaction.
        settings: Of the server; our own words, nothing that a user gave.
    """
    return "; ".join(f"{verb} {name} = {_value(text)}" for name, text in settings.items())


def _value(text: str) -> str:
    """A list of names, as in search_path, is no single string."""
    return ", ".join(f"'{part.strip()}'" for part in text.split(","))

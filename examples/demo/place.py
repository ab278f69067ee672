"""The place of the demo: a throw-away server or a given one, in a new schema that is dropped at the end."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import urlencode, urlsplit

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from asyncq.domain.errors import StoreError
from asyncq.server import find_binaries, start
from asyncq.store.database import Database
from asyncq.store.failures import calling, is_transient

DROP_LIMIT_S = 10.0
DROP_TRIES = 3


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A database and the schema of one demo.

    Attributes:
        dsn: The database; its search path is the schema, so that statements name tables without it.
        schema: The schema of asyncq's tables and the demo's own.
        is_ours: Whether the server is a throw-away one.
        title: The name of the server in the output.
    """

    dsn: str
    schema: str
    is_ours: bool
    title: str

    @property
    def database(self) -> Database:
        """The database, for connections of asyncq."""
        return Database(self.dsn, self.schema)


@asynccontextmanager
async def place(given: str | None) -> AsyncGenerator[Place]:
    """Make a place for one demo.

    Args:
        given: The DSN of a server; None starts one.

    Yields:
        The place; its schema does not exist yet.

    Raises:
        ServerBinariesNotFound: No PostgreSQL was found.
        ServerFailed: The server did not start.
        StoreError: The given server cannot be used.

    If cancelled, it waits for a starting server and stops it; nothing is left afterwards.
    """
    schema = f"asyncq_demo_{secrets.token_hex(4)}"
    if given is None:
        async with _throw_away_server(schema) as ours:
            yield ours
        return
    theirs = Place(dsn=_with_search_path(given, schema), schema=schema, is_ours=False, title="the given server")
    try:
        yield theirs
    finally:
        with anyio.CancelScope(shield=True):
            await drop(theirs)


@asynccontextmanager
async def _throw_away_server(schema: str) -> AsyncGenerator[Place]:
    with_server = ExitStack()
    try:
        binaries = await anyio.to_thread.run_sync(find_binaries)
        server = await anyio.to_thread.run_sync(lambda: with_server.enter_context(start(binaries=binaries)))
        await anyio.lowlevel.checkpoint()
        yield Place(
            dsn=_with_search_path(server.dsn, schema),
            schema=schema,
            is_ours=True,
            title=f"PostgreSQL {server.version}, a throw-away server in {server.folder}",
        )
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(with_server.close)


async def drop(place: Place) -> None:
    """Drop the schema with everything in it, if it exists; jobs that still run in it fail.

    Args:
        place: The place of the schema.

    Raises:
        StoreError: The server cannot be reached, or refused.
    """
    with anyio.move_on_after(DROP_LIMIT_S):
        connection = await place.database.connect("demo")
        try:
            with calling(place.schema):
                await connection.execute("set client_min_messages = warning")
            for tries_left in reversed(range(DROP_TRIES)):
                try:
                    with calling(place.schema):
                        await connection.execute(f"drop schema if exists {place.schema} cascade")
                    return
                except StoreError as error:  # such as a deadlock with one of those jobs
                    if not tries_left or not is_transient(error):
                        raise
        finally:
            await connection.close(timeout=1.0)
    raise StoreError(f"the schema {place.schema} could not be dropped within {DROP_LIMIT_S:g} s; please drop it")


def _with_search_path(dsn: str, schema: str) -> str:
    """Add a setting to the DSN for each of its connections; all others are kept."""
    parts = urlsplit(dsn)
    setting = urlencode({"search_path": schema})
    return parts._replace(query=f"{parts.query}&{setting}" if parts.query else setting).geturl()

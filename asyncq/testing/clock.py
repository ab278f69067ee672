"""A clock that a test can move: it replaces `now()` and `clock()` in the test's own schema."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Self

import anyio
import asyncpg

from asyncq.domain.errors import ConfigurationError, SchemaMissing
from asyncq.store.database import Database
from asyncq.store.failures import calling
from asyncq.store.statements import render, texts
from asyncq.testing.schema import CLEAN_UP_S, MARK


class MovableClock:
    """The clock of a test's schema: the server's time plus an offset; it keeps running after a move.

    All times that asyncq computes now follow it: when a job is due, the next retry, `created_at`. Leases do not:
    workers live in real time. Running workers are woken and find jobs that have become due. They must come from
    `make_worker` or `run_due` of this kit; any other worker refuses to start on a moved clock.

    Args:
        dsn: The database.
        schema: A schema that `temporary_schema` made, or one marked by
            `comment on schema <name> is 'asyncq.testing'`; any other is refused.

    Raises:
        ConfigurationError: The name of the schema is not valid.

    Use it directly, or as an async context manager. The end of the last open block resets the clock, also if it is
    cancelled:

        async def test_a_failed_job_is_tried_again(dsn: str, schema: str) -> None:
            async with MovableClock(dsn, schema) as clock:
                await run_due(dsn, [fetch_page], schema=schema)
                await clock.move(timedelta(minutes=1))
                ran = await run_due(dsn, [fetch_page], schema=schema)
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self._database = Database(dsn, schema)
        self._blocks = 0

    async def __aenter__(self) -> Self:
        await self.now()
        self._blocks += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._blocks -= 1
        if self._blocks == 0:
            with calling(self._database.schema), anyio.fail_after(CLEAN_UP_S, shield=True):
                await self.reset()

    async def now(self) -> datetime:
        """Read the clock.

        Returns:
            The time, in UTC.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, nothing was changed: it only reads.
        """
        async with self._alone() as connection:
            shown: datetime = await self._ask(connection, "select asyncq.clock()")
            return shown

    async def move(self, by: timedelta) -> datetime:
        """Move the clock by a duration.

        Args:
            by: The duration; a negative one moves it back.

        Returns:
            The new time.

        Raises:
            ConfigurationError: The schema is not marked as a test's, or `by` is not a timedelta.
            StoreError: The database cannot be used.

        If cancelled, it is unknown whether it was moved.
        """
        if not isinstance(by, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a clock is moved by a timedelta, got {by!r}")
        async with self._alone() as connection:
            # Both are the transaction's start: their difference is the offset, to the microsecond.
            offset: timedelta = await self._ask(connection, "select asyncq.now() - pg_catalog.now()")
            return await self._put(connection, offset + by)

    async def set(self, to: datetime) -> datetime:
        """Set the clock to an instant; it keeps running from there.

        Args:
            to: The instant, with a time zone; earlier or later than now.

        Returns:
            The new time.

        Raises:
            ConfigurationError: The schema is not marked as a test's, or `to` has no time zone.
            StoreError: The database cannot be used.

        If cancelled, it is unknown whether it was set.
        """
        if not isinstance(to, datetime) or to.utcoffset() is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a clock is set to a datetime with a time zone, got {to!r}")
        async with self._alone() as connection:
            now: datetime = await self._ask(connection, "select pg_catalog.now()")
            return await self._put(connection, to - now)

    async def reset(self) -> None:
        """Reset the clock to the server's own, so that any worker may run.

        Raises:
            StoreError: The database cannot be used.

        If cancelled, it is unknown whether it was reset.
        """
        async with self._alone() as connection:
            await self._replace(connection, texts("functions")["clock"])

    async def _put(self, connection: asyncpg.Connection, offset: timedelta) -> datetime:
        microseconds = offset // timedelta(microseconds=1)
        await self._replace(connection, _MOVED_CLOCK.format(offset=f"make_interval(secs => {microseconds} / 1e6)"))
        shown: datetime = await self._ask(connection, "select asyncq.clock()")
        return shown

    async def _replace(self, connection: asyncpg.Connection, functions: str) -> None:
        """Replace the two functions: the server plans statements that inlined them again, and workers fetch."""
        text = render(f"{functions}; select pg_catalog.pg_notify('asyncq:jobs', 'all')", self._database.schema)
        with calling(self._database.schema):
            await connection.execute(text)

    async def _ask(self, connection: asyncpg.Connection, question: str) -> Any:
        with calling(self._database.schema):
            return await connection.fetchval(render(question, self._database.schema))

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[asyncpg.Connection]:
        """A transaction in which nothing else replaces functions of the schema, if it is a test's."""
        async with self._database.connected("clock") as connection, connection.transaction():
            await self._check(connection)
            yield connection

    async def _check(self, connection: asyncpg.Connection) -> None:
        schema = self._database.schema
        # The lock of `migrate`, which replaces the same functions.
        await connection.fetchval("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{schema}:migrate")
        found, mark = await connection.fetchrow(_MARK_OF, schema) or (False, None)
        if not found:
            raise SchemaMissing(f"there is no schema {schema!r}; make one with asyncq.testing.temporary_schema")
        if mark != MARK:
            raise ConfigurationError(
                f"the clock of schema {schema!r} is not changed: the schema may be in real use. Use a schema that "
                "asyncq.testing.temporary_schema made; or, if only tests use this one, declare that by "
                f"comment on schema {schema} is '{MARK}'"
            )


_MARK_OF = """
select to_regnamespace($1) is not null, pg_catalog.obj_description(to_regnamespace($1), 'pg_namespace')
"""

# As simple as the real ones in sql/functions/clock/clock.sql: they must be inlined, or plans would differ.
_MOVED_CLOCK = """
create or replace function asyncq.now() returns timestamptz
  language sql stable parallel safe
  as $$ select pg_catalog.now() + pg_catalog.{offset} $$;
create or replace function asyncq.clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select pg_catalog.clock_timestamp() + pg_catalog.{offset} $$
"""

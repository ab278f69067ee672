"""The patience with a statement that is not answered: short with a dead connection, long with a slow server."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from asyncq.engine.base.shield import Patience, shielded
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.settle import settle_rest


def test_each_missing_answer_doubles_the_deadline_up_to_a_limit() -> None:
    """A server that needs longer than the first deadline would otherwise never be done with anything."""
    patience = Patience(5.0, 30.0)
    deadlines = [patience.deadline_s]
    for _ in range(4):
        patience.lost()
        deadlines.append(patience.deadline_s)

    assert [5.0, 10.0, 20.0, 30.0, 30.0] == deadlines


def test_an_answer_makes_the_deadline_short_again() -> None:
    """The next dead connection must be noticed as quickly as the first one."""
    patience = Patience(5.0, 30.0)
    patience.lost()
    patience.answered()

    assert 5.0 == patience.deadline_s


async def test_a_deadline_names_the_awaited_answer_and_the_time(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """The message becomes a log line. The name of an exception would not explain it."""
    line = ReconnectingConnection(Database(dsn, schema), "settle")
    await line.ready()
    try:
        async with db.transaction():
            await db.execute(f"lock table {schema}._jobs")
            with pytest.raises(TimeoutError, match=r"^no answer from PostgreSQL within 0\.05 s$"):
                async with shielded(line, 0.05):
                    await settle_rest(line, 1, [])
    finally:
        await line.close()


async def test_a_caller_that_is_cancelled_meanwhile_still_waits_for_the_answer(dsn: str, schema: str) -> None:
    """A claim or a settlement in flight must not be abandoned."""
    line = ReconnectingConnection(Database(dsn, schema), "settle")
    answered: list[object] = []
    with anyio.CancelScope() as scope:
        async with shielded(line, 5.0):
            scope.cancel()
            answered.append(await settle_rest(line, 1, []))
        await anyio.lowlevel.checkpoint()
    await line.close()

    assert ([{}], True) == (answered, scope.cancelled_caught)

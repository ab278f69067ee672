"""Statements that were sent are awaited, in spite of a cancellation."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from asyncq.engine.base.shield import shielded
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.settle import settle_rest


async def test_a_caller_that_is_cancelled_meanwhile_still_waits_for_the_answer(dsn: str, schema: str) -> None:
    """A claim or a settlement in flight must not be abandoned."""
    line = ReconnectingConnection(Database(dsn, schema), "settle")
    answered: list[object] = []
    with anyio.CancelScope() as scope:
        async with shielded(line):
            scope.cancel()
            answered.append(await settle_rest(line, 1, []))
        await anyio.lowlevel.checkpoint()
    await line.close()

    assert ([{}], True) == (answered, scope.cancelled_caught)

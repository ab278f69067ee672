"""Keeps the LISTEN connection alive. A notification is a wake-up, or tells of a cancelled job or of changed items.

So is every (re)connect, of all: nothing was heard before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from asyncq.domain.errors import AsyncqError, StoreUnavailable
from asyncq.domain.events import ListenConnected, ListenLost
from asyncq.engine.backoff import backoff_s
from asyncq.engine.observers import Observers
from asyncq.store.database import Database
from asyncq.store.listen import Listening, channel, listening

PROBE_S = 20.0
PROBE_DEADLINE_S = 5.0
FIRST_RETRY_S = 0.05
SLOWEST_RETRY_S = 5.0


async def listen(
    database: Database,
    observers: Observers,
    wake: Callable[[], None],
    cancelled: Callable[[int, int, int], None],
    look: Callable[[], None],
    changed: Callable[[], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Listen for ever; polling goes on while there is no connection.

    Args:
        database: Where.
        observers: Told when the connection works and when it is lost.
        wake: Called for each notification that something may be due, and for each connect.
        cancelled: Called for each running job that was cancelled; see `store.listen.listening`.
        look: Called for each connect: jobs may have been cancelled meanwhile.
        changed: Called when stored recurring items have changed, and for each connect.
        task_status: Started once the first attempt has worked or failed.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            async with listening(database, wake, cancelled, changed) as connection:
                observers.emit(ListenConnected(channel=channel(database.schema), attempt=attempt))
                attempt = 0
                wake()
                look()
                changed()
                _started(task_status)
                await _until_lost(connection)
        except AsyncqError as error:
            wait_s = backoff_s(attempt + 1, FIRST_RETRY_S, SLOWEST_RETRY_S)
            observers.emit(ListenLost(error=str(error), retry_in_s=wait_s))
            _started(task_status)
            await anyio.sleep(wait_s)


def _started(task_status: TaskStatus[None]) -> None:
    try:
        task_status.started()
    except RuntimeError:
        return  # It was called before: this is a reconnect.


async def _until_lost(connection: Listening) -> None:
    """Watch the connection: the driver tells of a closed one, a probe finds a half-open one."""
    while True:
        try:
            async with asyncio.timeout(PROBE_S):
                await connection.broken.wait()
        except TimeoutError:
            await connection.probe(PROBE_DEADLINE_S)
        else:
            raise StoreUnavailable("the LISTEN connection was closed")

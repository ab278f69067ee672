"""Keeps the LISTEN connection alive. A notification is a wake-up, or names a cancelled job or changed items.

So is every (re)connect, of all: nothing was heard before.
"""

from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

from asyncq.domain.errors import AsyncqError, ConfigurationError, StoreUnavailable, UnsupportedServer
from asyncq.domain.events import ListenConnected, ListenLost, PollingOnly
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.groups import report_started
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.handoff import Handoff
from asyncq.engine.fetch.oncall import OnCall
from asyncq.store.database import Database
from asyncq.store.listen import Listening, channel, listening

PROBE_S = 5.0
PROBE_DEADLINE_S = 5.0
FIRST_RETRY_S = 0.05
SLOWEST_RETRY_S = 0.5
HOPELESS_S = 60.0  # where somebody has to mend the DSN or the pooler


async def listen(
    database: Database | None,
    observers: Observers,
    *,
    identity: Identity,
    on_call: OnCall,
    handoff: Handoff,
    heard: Callable[[str], None],
    cancelled: Callable[[int, int], None],
    look: Callable[[], None],
    changed: Callable[[], None],
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Listen without end, or return if the server or the DSN does not permit it; the worker polls then.

    The callbacks are those of `store.listen.listening`. Each connect calls `look` and `changed` too: nothing was heard
    before. The task counts as started once the first attempt has worked or failed.
    """
    if database is None:
        reason = "the DSN leads to a pooler, and there is no listen_dsn, which leads directly to the server"
        observers.emit(PollingOnly(reason=reason))
        task_status.started()
        return
    attempt = failures = 0
    while True:
        attempt += 1
        try:
            async with listening(database, heard, cancelled, changed, look, handoff.heard) as connection:
                observers.emit(ListenConnected(channel=channel(database.schema), attempt=attempt))
                attempt = failures = 0
                handoff.connected(connection)
                on_call.connected(connection)
                look()
                changed()
                report_started(task_status)
                await _until_lost(connection, identity)
        except AsyncqError as error:
            handoff.lost()
            on_call.lost()
            if isinstance(error, UnsupportedServer):
                observers.emit(PollingOnly(reason=str(error)))
                report_started(task_status)
                return
            wait_s = backoff_s(attempt + 1, FIRST_RETRY_S, SLOWEST_RETRY_S)
            if isinstance(error, ConfigurationError):
                wait_s = HOPELESS_S
            failures += 1
            observers.emit(ListenLost(error=str(error), retry_in_s=wait_s, failures=failures))
            report_started(task_status)
            await anyio.sleep(wait_s)


async def _until_lost(connection: Listening, identity: Identity) -> None:
    """Watch the connection: the driver reports a closed one, a probe finds a half-open one."""
    while True:
        await connection.probe(identity.worker_id, PROBE_DEADLINE_S)
        with anyio.move_on_after(PROBE_S):
            await connection.broken.wait()
            raise StoreUnavailable("the LISTEN connection was closed")

"""The connections of a worker's heartbeat: one in use, which holds the worker's lock, and those that do not answer.

A connection that does not answer is kept until the worker's row says that the lock does not count, since the server may
still hold the lock for it. A connection on which the server refuses a statement stays in use. The answer proves that
the session is alive, and holds the lock.
"""

import asyncio
from collections.abc import Callable
from typing import assert_never

from asyncq.domain.errors import AsyncqError
from asyncq.engine.base.lease import HALF_GRACE_S
from asyncq.engine.liveness.lease_state import LeaseState
from asyncq.store.database import Database
from asyncq.store.heartbeat_connection import HeartbeatConnection


class HeartbeatLines:
    """The connections of one heartbeat; of its thread. `hurry` is called when the one in use has ended."""

    def __init__(self, database: Database, lease_state: LeaseState, hurry: Callable[[], None]) -> None:
        self._database = database
        self._lease_state = lease_state
        self._hurry = hurry
        self.silent: list[HeartbeatConnection] = []
        self.line = self.another()

    def another(self) -> HeartbeatConnection:
        return HeartbeatConnection(self._database, self._ended)

    def use(self, line: HeartbeatConnection) -> None:
        self.line.drop()
        self.line = line

    def give_up(self) -> None:
        """The connection in use does not answer: use a new one."""
        if self.line.held_id:
            self.silent.append(self.line)
        else:
            self.line.drop()
            self._lease_state.lock_is_free()
        self.line = self.another()

    async def refused(self, worker_id: int) -> None:
        """Decide after the server refused a beat over the connection that holds the lock.

        A lock with which a beat was written is still held. A lock that was taken since may have been free for long: the
        row shows whether a rescue has declared the worker dead. From then on none can, until the lease is over.
        """
        if self.line.is_proven and self._lease_state.state != "doubted":
            return
        try:
            async with asyncio.timeout(HALF_GRACE_S):
                found = await self.line.find(worker_id)
        except (AsyncqError, TimeoutError):
            found = "unknown"
        match found:
            case "known":
                self._lease_state.locked_again()
            case "standby":
                self._lease_state.refused()
            case "gone" | "unknown":
                self._lease_state.lock_is_free()
            case _:
                assert_never(found)

    def drop_silent(self) -> bool:
        """The row says that no lock counts: end the connections that do not answer; returns whether there were any."""
        silent, self.silent = self.silent, []
        for line in silent:
            line.drop()
        return bool(silent)

    def _ended(self, line: HeartbeatConnection) -> None:
        """A connection has ended that nobody here closed: the server frees the lock."""
        if line is self.line:
            self._lease_state.lock_is_free()
            self._hurry()
        elif line in self.silent:
            self.silent.remove(line)
            self._lease_state.lock_is_free()

    async def close(self) -> None:
        self.drop_silent()
        await self.line.close()

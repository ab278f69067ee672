"""Reports sessions that block vacuum while fetches suffer from it; only the oldest worker does so, and only then."""

from __future__ import annotations

import asyncio

from asyncq.domain.events import VacuumBlocked
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.engine.fetch.cursor import FetchCursor
from asyncq.store.checkup import vacuum_blockers
from asyncq.store.database import ReconnectingConnection

EVERY_S = 60.0
TELL_EVERY_S = 600.0
MANY_DEAD = 20_000  # with fewer dead rows fetches are slow for another reason
LASTING_S = 3 * EVERY_S  # two checks within this time must agree
HELD_S = 10.0  # a session that began later is not the cause
MOST = 3
DEADLINE_S = 10.0


class VacuumWatch:
    """The watch of one worker over the cost of its fetches."""

    def __init__(
        self, line: ReconnectingConnection, identity: Identity, observers: Observers, cursor: FetchCursor
    ) -> None:
        self._line = line
        self._identity = identity
        self._observers = observers
        self._cursor = cursor
        self._look_at = self._tell_at = 0.0
        self._last_at = float("-inf")

    async def look_when_due(self) -> None:
        """Find the holders, if fetches have become slow and that was not done lately.

        If cancelled, it waits for the running statement.
        """
        now = asyncio.get_running_loop().time()
        if not self._cursor.is_slow or now < max(self._look_at, self._tell_at):
            return
        self._look_at = now + EVERY_S
        cost_s, usual_s = self._cursor.cost_s, self._cursor.usual_s
        found = None
        async with shielded(self._line, DEADLINE_S):
            found = await vacuum_blockers(self._line, self._identity.worker_id, HELD_S, MOST)
        if found is None:
            return
        most = next(iter(found.dead_rows), None)
        if most is None or most.dead < MANY_DEAD:
            return
        # The dead rows of one minute at full speed are removed by the next vacuum, unless a session keeps them.
        is_lasting, self._last_at = now - self._last_at < LASTING_S, now
        if found.holders or is_lasting:
            self._tell_at = now + TELL_EVERY_S
            self._observers.emit(
                VacuumBlocked(
                    worker_id=self._identity.worker_id,
                    holders=tuple(map(str, found.holders)),
                    sees_all=found.sees_all,
                    table=most.table,
                    dead_rows=most.dead,
                    look_s=cost_s,
                    usual_s=usual_s,
                )
            )

"""Sends a beat over another connection of the worker when the heartbeat has lost its own."""

import asyncio
from collections.abc import Sequence

from asyncq.domain.errors import AsyncqError
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import HALF_GRACE_S, now_s
from asyncq.engine.liveness.heartbeat import Heartbeat
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.stuck import Stuck
from asyncq.store.database import ReconnectingConnection
from asyncq.store.workers import beat


class FallbackHeartbeat:
    """The fallback of one worker's heartbeat on its open connections, the least busy one first."""

    def __init__(
        self,
        lines: Sequence[ReconnectingConnection],
        identity: Identity,
        start_gate: StartGate,
        heartbeat: Heartbeat,
        stuck: Stuck,
    ) -> None:
        self._lines = lines
        self._identity = identity
        self._start_gate = start_gate
        self._heartbeat = heartbeat
        self._stuck = stuck
        self._wanted = asyncio.Event()

    def ask(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            for line in self._lines:
                if line.is_open and await self._beat(line):
                    break

    async def _beat(self, line: ReconnectingConnection) -> bool:
        worker_id, sent_at = self._identity.worker_id, now_s()
        if not worker_id:
            return True
        try:
            async with asyncio.timeout(HALF_GRACE_S):
                answer = await beat(line, worker_id, self._start_gate.started(), self._stuck.ids())
        except (AsyncqError, TimeoutError):
            return False  # The heartbeat reports its own failure; without any proof the handlers are cancelled.
        self._heartbeat.stood_in(worker_id, answer, sent_at)
        return True

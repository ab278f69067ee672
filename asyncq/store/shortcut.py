"""The most frequent add by the fewest steps: one insert over a connection at hand.

Programs and the server share the caches of a machine: what is touched between two statements costs the server time too.
"""

from __future__ import annotations

import asyncio
import os

from asyncq.domain.job import Added, JobSpec
from asyncq.store.at_once import AtOnce
from asyncq.store.client_pool import ClientPool, Loan
from asyncq.store.database import Database
from asyncq.store.failures import tell_of_call


class Shortcut:
    """The shortcut of one client, whose connections keep statements and whose role inserts by itself.

    It is for the process and the event loop that it is made in.

    Args:
        database: Where the jobs are.
        client_pool: The client's connections.
        at_once: Knows where nobody offers to take a job.
    """

    def __init__(self, database: Database, client_pool: ClientPool, at_once: AtOnce) -> None:
        self._database = database
        self._client_pool = client_pool
        self._at_once = at_once
        self._insert = database.query("insert_plain_job")
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()

    async def add(self, spec: JobSpec) -> Added | None:
        """Add a job that asks for nothing special, while nobody is known to wait for it.

        Args:
            spec: It, checked.

        Returns:
            What the add came to; None if nothing was done, and it has to go the long way.

        Raises:
            StoreError: See `failures.calling` and `failures.on_our_own`.

        If cancelled, the outcome is unknown.
        """
        waits = spec.queue is not None or spec.run_at is not None or spec.flags
        asks = spec.job_key is not None or spec.unique is not None or spec.singleton or spec.idempotency_key is not None
        if waits or asks or spec.meta is not None:
            return None
        loop = asyncio.get_running_loop()
        if loop.time() >= self._at_once.blind_until.get(spec.task, 0.0):
            return None
        if loop is not self._loop or os.getpid() != self._pid:
            return None
        if (connection := self._client_pool.at_hand()) is None:
            return None
        values = (spec.task, spec.payload, spec.max_attempts, spec.priority)
        try:
            rows = await connection.fetch(self._insert, *values, False)  # noqa: FBT003
        except BaseException as error:
            async with Loan(self._client_pool, self._database.dsn, connection):
                tell_of_call(error, self._database.schema)
                raise
        if not self._client_pool.keep(connection):
            await self._client_pool.release(connection, is_well=True)
        return Added(rows[0]["id"]) if rows else None

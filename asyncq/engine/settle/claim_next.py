"""Settles a job of a partition, such as a queue, and claims the next job of it, in one statement.

This bypasses priorities, so it is limited. 25 ms after the last fetch it checks for newly due jobs. If there are some,
or after 250 ms, the partition is left, and the next fetch chooses among all due jobs.
"""

from collections.abc import Sequence
from contextlib import suppress

from asyncq.domain.errors import AsyncqError
from asyncq.domain.job import Claim
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.lease import HALF_GRACE_S, now_s
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.schedule import Schedule
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.settle import Kept, claim_next


class ClaimNext:
    """Claims the next jobs of partitions for one worker, on the connection on which its jobs are settled."""

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        inbox: Inbox,
        schedule: Schedule,
        unconfirmed: UnconfirmedFetches,
    ) -> None:
        self._line = line
        self._identity = identity
        self._inbox = inbox
        self._schedule = schedule
        self._unconfirmed = unconfirmed

    async def room(self, worker_id: int) -> int:
        """Return how many next jobs may be claimed now, without a fetch, after jobs that were claimed by this id."""
        if worker_id != self._identity.worker_id:
            return 0
        with suppress(AsyncqError):  # Nothing was written yet: the next statement reports the failure.
            await self._schedule.peek(self._line)
        return self._schedule.room

    async def settle(self, worker_id: int, ended: Sequence[Claim], kept: Kept, room: int) -> tuple[set[int], set[int]]:
        """Settle completed jobs, and claim up to `room` next jobs of their partitions.

        Returns the ids of the written jobs, and the partitions with a new claim. After a lost answer the new claims are
        noted, and returned later. If cancelled, the same holds: callers shield it.
        """
        token = self._identity.next_token()
        room = min(room, sum(claim.partition is not None for claim in ended))
        answered, sent_at = False, now_s()
        self._inbox.expect(token, room)
        try:
            flags = self._identity.row_flags.get(worker_id)
            written, claims = await claim_next(
                self._line, worker_id, ended, kept, room, token, self._identity.tasks, flags
            )
            answered = True
        except AsyncqError as error:
            answered = not is_unknown(error)
            raise
        finally:
            if not answered:
                self._unconfirmed.note(worker_id, token)
                self._schedule.wake()
            self._inbox.answered(token)
            self._schedule.followed()
        if claims and now_s() - sent_at > HALF_GRACE_S:
            # A rescue may have released these claims, as in a fetch. The settlements cannot wait for a beat.
            self._inbox.give_back(claims, "their settlement was answered late", worker_id)
            return written, set()
        self._inbox.receive(worker_id, claims)
        return written, {claim.partition for claim in claims if claim.partition is not None}

"""The end of a job of a queue, and the claim of the one that follows it, in one statement.

Not for ever: what a fetch would take first waits meanwhile. A while after the last fetch it is asked whether anything
has become due. If so, or after a longer while, the queue is freed, and the next fetch decides among all that waits.
"""

from __future__ import annotations

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
from asyncq.store.settle import claim_next


class ClaimNext:
    """Claims the next jobs of queues for one worker.

    Args:
        line: The connection on which jobs are settled.
        identity: Who claims.
        inbox: Takes the claims.
        schedule: Knows how many claims there is room for.
        unconfirmed: Returns the claims whose answer was lost.
    """

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
        """How many jobs that follow may be claimed now, without a look at all the others.

        Args:
            worker_id: Under which id the jobs before them were claimed.
        """
        if worker_id != self._identity.worker_id:
            return 0
        with suppress(AsyncqError):  # Nothing was written yet: what is written then fails by itself, and says so.
            await self._schedule.peek(self._line)
        return self._schedule.room

    async def settle(self, worker_id: int, ended: Sequence[Claim], room: int) -> tuple[set[int], set[str]]:
        """Settle jobs that ended well, and claim those that follow in their queues.

        Args:
            worker_id: Whose claims they are.
            ended: Their claims.
            room: How many to claim at most.

        Returns:
            The ids of those that were written, and the queues that go on.

        Raises:
            StoreError: See `store.complete`; claims whose answer was lost are noted, and given back later.

        If cancelled, the same holds: callers shield it.
        """
        token = self._identity.next_token()
        room = min(room, sum(claim.queue is not None for claim in ended))
        answered, sent_at = False, now_s()
        self._inbox.expect(token, room)
        try:
            written, claims = await claim_next(
                self._line, worker_id, ended, room, token, self._identity.tasks, self._identity.flags_of(worker_id)
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
            # A rescue may have taken these claims meanwhile, as in a fetch. The settlements cannot wait for a beat.
            self._inbox.give_back(claims, "their settlement was answered late", worker_id)
            return written, set()
        self._inbox.receive(worker_id, claims)
        return written, {claim.queue for claim in claims if claim.queue is not None}

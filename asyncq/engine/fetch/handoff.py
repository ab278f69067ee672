"""What an idle worker offers to adds: the next job that is added by itself is claimed for it by the add.

So it starts without a look for jobs. An offer is for one job: whatever happens to its worker then, at most one job
waits for it. That it was taken is heard on the connection that listens; it is made anew when the worker is idle again.
What was claimed without a word, as that connection broke, is returned by its token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.job import Claim
from asyncq.domain.outcome import words
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.handoff import handed_over, withdraw_offer
from asyncq.store.listen import Listening

IDLE_S = 0.002  # where jobs come faster than this, one look finds several
DEADLINE_S = 5.0
AGAIN_S = 0.25
BUSY_S = 1.0  # an offer that is older ends when its worker has something to do
WITHHELD_S = 10.0  # for how long no offer is made once there are too many versions of them
STOP_S = 2.0  # how long a worker that stops tries to withdraw one


class Handoff:
    """The offer of one worker.

    Args:
        line: A connection on which it can be withdrawn while nobody listens.
        identity: Who offers.
        observers: Told when it cannot be withdrawn.
        lost: Told of what was claimed without a word.
        expected: The tokens of the claims that are awaited.

    Attributes:
        token: That of the offer that may stand; 0 if none does.
        is_idle: Whether the worker has nothing to do.
        may_take: Whether it may take a job at all.
        receive: Takes the claim: the worker's id under which it was made, a list of it, and when it was made, by the
            server's clock.
        wake: Makes the fetcher look for jobs, and for claims that were lost.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        observers: Observers,
        lost: UnconfirmedFetches,
        expected: set[int],
    ) -> None:
        self._line = line
        self._identity = identity
        self._observers = observers
        self._lost = lost
        self._expected = expected
        self.is_idle: Callable[[], bool] = _never
        self.may_take: Callable[[], bool] = _never
        self.receive: Callable[[int, list[Claim], float], object] = _nowhere
        self.wake: Callable[[], object] = _never
        self.token = self._heard = self._worker_id = 0
        self._connection: Listening | None = None
        self._start_soon: Callable[..., object] | None = None
        self._is_busy = self._has_stopped = False
        self._is_withdrawn = True
        self._is_unsure = False  # whether nobody knows what became of it
        self._made_at = self._withheld_until = 0.0
        self._one_at_a_time = asyncio.Lock()

    def open(self, start_soon: Callable[..., object]) -> None:
        """From now on it can be made; by this tasks are started."""
        self._start_soon = start_soon

    def connected(self, connection: Listening) -> None:
        """The worker listens."""
        self._connection = connection

    def lost(self) -> None:
        """It does not listen."""
        self._connection = None
        if self.token:
            self._soon(self._withdraw_until_done)

    def consider(self) -> None:
        """The worker is about to rest: make an offer, if it has nothing to do for a moment."""
        if self._worker_id != self._identity.worker_id:
            # It was declared dead, and its offer has ended with it.
            self._forget()
            self._is_withdrawn = True
        if not self.is_idle():
            # A busy worker does not ask whether it is taken.
            if self.token and (_now() - self._made_at > BUSY_S or not self.may_take()):
                self._soon(self._make_another)
        elif (
            not self.token and not self._has_stopped and self._connection is not None and _now() >= self._withheld_until
        ):
            self._soon(self._make)

    def heard(self, text: str) -> None:
        """It was taken: a job comes along."""
        said = handed_over(text)
        if said is None or said[0].token != self.token:
            return  # It was withdrawn meanwhile, and the job is returned.
        claim, made_at = said
        self._heard = claim.token
        self._forget()
        self.receive(self._worker_id, [claim], made_at)

    def missed(self) -> None:
        """It was taken a while ago, and nothing was heard."""
        if self.token:
            self._give_up()
            self._soon(self._withdraw_until_done)

    async def stop(self) -> None:
        """Offer nothing any more; if that fails, the worker's row stays, and others take over after the lease.

        If cancelled, the statement is waited for.
        """
        self._has_stopped = True
        until = _now() + STOP_S
        while not self._is_withdrawn:
            try:
                await self._withdraw()
            except (AsyncqError, TimeoutError) as error:
                if _now() < until:
                    await anyio.sleep(AGAIN_S)
                    continue
                self._observers.emit(MaintenanceFailed(error=f"an offer could not be withdrawn: {words(error)}"))
                self._give_up()
                return

    def _soon(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._start_soon is not None and not self._is_busy:
            self._is_busy = True
            self._start_soon(self._alone, act)

    async def _alone(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await act()
        finally:
            self._is_busy = False

    async def _make(self) -> None:
        await anyio.sleep(IDLE_S)
        connection, worker_id = self._connection, self._identity.worker_id
        if connection is None or self._has_stopped or not self.is_idle():
            return
        self.token, self._worker_id, self._is_withdrawn = self._identity.next_token(), worker_id, False
        self._expected.add(self.token)
        self._made_at, self._is_unsure = _now(), False
        is_made: bool | None = False
        try:
            with anyio.CancelScope(shield=True):
                async with self._one_at_a_time, asyncio.timeout(DEADLINE_S):
                    known, unbatched = self._identity.tasks, self._identity.unbatched
                    tasks = known, [task_id for task_id in known if task_id not in unbatched]
                    is_made = await connection.make_offer(worker_id, self.token, self._heard, *tasks)
        except (AsyncqError, TimeoutError) as error:
            self._is_unsure = is_unknown(error)
            connection.drop()  # It may stand, and nobody would hear.
        if is_made is None:
            self._withheld_until = _now() + WITHHELD_S
        if not is_made or connection is not self._connection:
            await self._withdraw_until_done()

    async def _make_another(self) -> None:
        await self._withdraw_until_done()
        await self._make()  # If the worker has nothing to do again by then: nobody has asked for it meanwhile.

    async def _withdraw_until_done(self) -> None:
        """While it is not known to be withdrawn, a job that is added may be claimed and wait."""
        while not self._has_stopped:  # Then `stop` sees to it, and to what was lost.
            try:
                await self._withdraw()
                return
            except (AsyncqError, TimeoutError):
                await anyio.sleep(AGAIN_S)

    async def _withdraw(self) -> None:
        is_known, taken = True, None
        try:
            async with self._one_at_a_time, shielded(self._line, DEADLINE_S):
                is_known, taken = await withdraw_offer(self._line, self._worker_id)
        except (AsyncqError, TimeoutError) as error:
            self._is_unsure = self._is_unsure or is_unknown(error)
            raise
        # What was heard while it was withdrawn is no loss. An older one was made late, after it was given up.
        if taken is not None and taken > self._heard:
            self._lose(taken)
        if self._is_unsure or not is_known:
            self._give_up()
        self._forget()
        self._is_unsure, self._is_withdrawn = False, True

    def _give_up(self) -> None:
        """It may have been taken; it is not listened to any more."""
        if self.token:
            self._lose(self.token)
            self._forget()

    def _lose(self, token: int) -> None:
        self._lost.note(self._worker_id, token)
        self.wake()

    def _forget(self) -> None:
        self._expected.discard(self.token)
        self.token = 0


def _now() -> float:
    return asyncio.get_running_loop().time()


def _never() -> bool:
    return False


def _nowhere(worker_id: int, claims: list[Claim], _made_at: float) -> None:
    raise AssertionError(f"claims {claims} of worker {worker_id} have nowhere to go")

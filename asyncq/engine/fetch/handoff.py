"""The direct hand-off: an idle worker opens a slot, and the next job that is added by itself is claimed for it.

The add sends the job in a notification, so the worker starts it without a fetch. A slot takes one job: whatever happens
to the worker then, at most one job waits for it. The worker opens the slot again when it is idle again. If the
notification is lost, as when the LISTEN connection breaks, the worker returns the claim by its token.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import MaintenanceFailed
from asyncq.domain.outcome import error_text
from asyncq.engine.base.identity import Identity
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.schedule import Schedule
from asyncq.engine.fetch.unconfirmed import UnconfirmedFetches
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.handoff import close_slot, handed_over
from asyncq.store.listen import Listening

IDLE_S = 0.002  # where jobs come faster than this, one fetch finds several
DEADLINE_S = 5.0
AGAIN_S = 0.25
# A slot that is older is closed when its worker has jobs.
BUSY_S = 1.0
# With too many dead rows of slots, no slot is opened for this long.
WITHHELD_S = 10.0
# A worker that stops tries for this long to close its slot.
STOP_S = 2.0


class Handoff:
    """The hand-off slot of one worker; `token` is that of a slot that may be open, 0 if it is closed."""

    def __init__(
        self,
        line: ReconnectingConnection,
        identity: Identity,
        observers: Observers,
        unconfirmed: UnconfirmedFetches,
        inbox: Inbox,
        schedule: Schedule,
        *,
        start_soon: Callable[..., object],
    ) -> None:
        self._line = line
        self._identity = identity
        self._observers = observers
        self._unconfirmed = unconfirmed
        self._inbox = inbox
        self._schedule = schedule
        self._start_soon = start_soon
        self.token = self._acknowledged = self._worker_id = 0
        self._connection: Listening | None = None
        self._is_busy = self._has_stopped = False
        self._is_closed = True
        self._is_unsure = False  # whether the last statement about the slot has an unknown result
        self._opened_at = self._withheld_until = 0.0
        self._one_at_a_time = asyncio.Lock()

    def connected(self, connection: Listening) -> None:
        self._connection = connection

    def lost(self) -> None:
        self._connection = None
        if self.token:
            self._soon(self._close_until_done)

    def consider(self) -> None:
        """Open the slot, before the worker sleeps, if it has had nothing to do for a moment."""
        if self._worker_id != self._identity.worker_id:
            # It was declared dead, and its slot has ended with it.
            self._forget()
            self._is_closed = True
        if not self._schedule.has_nothing_to_do:
            # A busy worker does not ask whether its slot was filled.
            if self.token and (loop_time() - self._opened_at > BUSY_S or not self._schedule.may_fetch()):
                self._soon(self._reopen)
        elif not self.token and self._connection is not None and loop_time() >= self._withheld_until:
            self._soon(self._open)

    def heard(self, text: str) -> None:
        """Handle a notification: the slot was filled, and the text has the job."""
        said = handed_over(text)
        if said is None or said[0].token != self.token:
            return  # The slot was closed meanwhile, and the job is returned.
        claim, made_at = said
        self._acknowledged = claim.token
        self._forget()
        self._inbox.take_over(self._worker_id, claim, made_at)

    def missed(self) -> None:
        """The slot was filled, and no notification came."""
        if self.token:
            self._give_up()
            self._soon(self._close_until_done)

    async def stop(self) -> None:
        """Close the slot for good. If that fails, the worker's row stays, and others take over after the lease.

        If cancelled, the statement is waited for.
        """
        self._has_stopped = True
        until = loop_time() + STOP_S
        while not self._is_closed:
            try:
                await self._close()
            except AsyncqError as error:
                if loop_time() < until:
                    await anyio.sleep(AGAIN_S)
                    continue
                said = f"the hand-off slot could not be closed: {error_text(error)}"
                self._observers.emit(MaintenanceFailed(error=said))
                self._give_up()
                return

    def _soon(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._start_soon(self._alone, act)

    async def _alone(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await act()
        finally:
            self._is_busy = False

    async def _open(self) -> None:
        await anyio.sleep(IDLE_S)
        connection, worker_id = self._connection, self._identity.worker_id
        if connection is None or self._has_stopped or not self._schedule.has_nothing_to_do:
            return
        self.token, self._worker_id, self._is_closed = self._identity.next_token(), worker_id, False
        self._inbox.expect(self.token, 0)
        self._opened_at, self._is_unsure = loop_time(), False
        is_open: bool | None = False
        try:
            with anyio.CancelScope(shield=True):
                async with self._one_at_a_time, asyncio.timeout(DEADLINE_S):
                    known, unbatched = self._identity.tasks, self._identity.unbatched
                    tasks = known, [task_id for task_id in known if task_id not in unbatched]
                    is_open = await connection.open_slot(worker_id, self.token, self._acknowledged, *tasks)
        except (AsyncqError, TimeoutError) as error:
            self._is_unsure = is_unknown(error)
            connection.drop()  # The slot may be open on it.
        if is_open is None:
            self._withheld_until = loop_time() + WITHHELD_S
        if not is_open or connection is not self._connection:
            await self._close_until_done()

    async def _reopen(self) -> None:
        await self._close_until_done()
        await self._open()  # Only if the worker has nothing to do by then.

    async def _close_until_done(self) -> None:
        """Try until it is closed: a job that fills it meanwhile would wait."""
        while not self._has_stopped:  # Then `stop` closes it, and notes what was lost.
            try:
                await self._close()
                return
            except AsyncqError:
                await anyio.sleep(AGAIN_S)

    async def _close(self) -> None:
        is_known, taken = True, None
        try:
            async with self._one_at_a_time, shielded(self._line):
                is_known, taken = await close_slot(self._line, self._worker_id)
        except AsyncqError as error:
            self._is_unsure = self._is_unsure or is_unknown(error)
            raise
        # A job that arrived in the meantime is not lost. An older token belongs to a slot that was given up.
        if taken is not None and taken > self._acknowledged:
            self._lose(taken)
        if self._is_unsure or not is_known:
            self._give_up()
        self._forget()
        self._is_unsure, self._is_closed = False, True

    def _give_up(self) -> None:
        """Note the claim as lost, since the slot may have been filled."""
        if self.token:
            self._lose(self.token)
            self._forget()

    def _lose(self, token: int) -> None:
        self._unconfirmed.note(self._worker_id, token)
        self._schedule.wake()

    def _forget(self) -> None:
        self._inbox.answered(self.token)
        self.token = 0

"""Settles a run by a transaction of its handler: one that the worker opens and commits, or the handler's own.

    the transaction                   a transactional task                   ctx.complete(connection=...)
    committed                         settled                                settled, whatever the handler raises then
    rolled back, handler raised       as its error says                      as its error says
    rolled back by the server         aborted: again soon, not counted       a failure
    unknown (the claim still exists)  aborted; said in last_error            a failure; said in last_error
    the claim was lost                lost: nothing is committed             lost: nothing is committed

If some items of a transactional job failed, the transaction stores the others as its payload, in place of its end. The
completer then writes the failed attempt.

At each line the worker may be cancelled, or its connection may break. Before COMMIT was sent, nothing is committed.
After that the claim decides, because the same transaction ends it: the worker asks for it until the server answers.
Each later write for such a run is fenced by its claim, as all others are.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, assert_never

import anyio

from asyncq.domain.around import AddMiddleware
from asyncq.domain.errors import (
    AsyncqError,
    ClaimLost,
    ConfigurationError,
    StoreError,
    StoreUnavailable,
    TransactionUnusable,
)
from asyncq.domain.events import CommitUncertain, ErrorIgnored, JobEvent, SettleFailed, TransactionOpen
from asyncq.domain.job import Claim
from asyncq.domain.outcome import (
    Aborted,
    Completed,
    Failed,
    Interrupted,
    Outcome,
    Returned,
    TimedOut,
    clean_error,
    error_text,
    rest_of,
)
from asyncq.domain.task import Isolation
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.shield import shielded
from asyncq.engine.run.progress import ProgressWriter
from asyncq.store import transactions as store
from asyncq.store.database import Connection, Database, HandlerPool, ReconnectingConnection
from asyncq.store.failures import cut_off, is_conflict, is_transient

TELL_AFTER_S = 60.0
COMPLETE_S = 300.0  # how long a completion waits for a lock of the job's row
FIRST_ASK_S = 0.01
SLOWEST_ASK_S = 1.0
SPLIT_S = 30.0  # how long a completion waits for a lock of the job's batch

Settled = Literal["completed", "rerun", "cancelled here", "lost"]


class HandlerResources:
    """The resources that all runs of a worker share; a lost transaction may stay open for `lease_s`."""

    def __init__(
        self,
        database: Database,
        pool: HandlerPool,
        line: ReconnectingConnection,
        observers: Observers,
        lease_s: float,
        progress: ProgressWriter,
        *,
        add_middleware: Sequence[AddMiddleware],
    ) -> None:
        self.add_middleware = add_middleware
        self.database = database
        self.pool = pool
        self.line = line
        self.observers = observers
        self.lease_s = lease_s
        self.progress = progress
        self._outage = Outage("asking how transactions ended", observers.emit)

    async def commit_status(
        self, worker_id: int, claim: Claim, locked: store.LockedClaim, since: float, is_open: Callable[[], None]
    ) -> store.CommitStatus:
        """Ask how a transaction ended; wait for its end, and force it when the lease is over.

        `since` is the time of its last statement by the loop's clock; `is_open` is called once if it goes on.

        Repeats the question until the database answers. If cancelled, the claim stays as it is.
        """
        clock = asyncio.get_running_loop().time
        tries = 0
        while True:
            tries += 1
            wait_s = backoff_s(tries, FIRST_ASK_S, SLOWEST_ASK_S)
            try:
                async with shielded(self.line):
                    status = await store.commit_status(self.line, worker_id, claim, locked.xid)
                    self._outage.over()
                    if status != "in progress":
                        return status
                    is_open()
                    is_open = _nothing
                    if clock() - since >= self.lease_s:
                        await store.end_transaction(self.line, locked)
            except AsyncqError as error:
                failures = self._outage.failed()
                event = SettleFailed(count=1, error=error_text(error), retry_in_s=wait_s, failures=failures)
                self.observers.emit(event)
            await anyio.sleep(wait_s)

    async def split_batch(self, worker_id: int, claim: Claim) -> bool:
        """Make a claim in a batch a row, after transactions that lock the batch; returns whether it still exists.

        TransactionUnusable if another transaction locks the batch for too long.

        If cancelled, the claim still exists, in a batch or as a row.
        """
        until = asyncio.get_running_loop().time() + SPLIT_S
        tries = 0
        while True:
            tries += 1
            async with shielded(self.line):
                state = await store.split_batch(self.line, worker_id, claim)
            if state != "locked":
                return state == "row"
            if asyncio.get_running_loop().time() >= until:
                raise TransactionUnusable(
                    f"another transaction locks the batch in which job {claim.id} was claimed for more than "
                    f"{SPLIT_S:g} s: end it, or declare the task with completes=True"
                )
            await anyio.sleep(backoff_s(tries, FIRST_ASK_S, SLOWEST_ASK_S))


class _Settling:
    """The handler's part in settling a run; `settled` is None if the completer settles the job."""

    def __init__(self, resources: HandlerResources, claim: Claim, task: str, worker_id: int) -> None:
        self._resources = resources
        self._claim = claim
        self._task = task
        self._worker_id = worker_id
        self._began_at = time.perf_counter()
        self.settled: Settled | None = None

    @property
    def _duration_s(self) -> float:
        return time.perf_counter() - self._began_at

    def _emit(self, kind: type[JobEvent], exception: BaseException | None = None, **fields: Any) -> None:
        about: dict[str, Any] = {"task": self._task, "attempt": self._claim.attempts + 1, "worker_id": self._worker_id}
        event = kind(claim=self._claim, **about, **fields)
        self._resources.observers.emit(event, exception)


class OwnTransactions(_Settling):
    """Settles a run whose handler has called `ctx.complete`, which completes the job in the handler's transactions."""

    def __init__(self, resources: HandlerResources, claim: Claim, task: str, worker_id: int) -> None:
        super().__init__(resources, claim, task, worker_id)
        self._completions: list[store.LockedClaim] = []
        self._asked_again = False

    async def complete(self, connection: Connection) -> None:
        worker_id, claim = self._worker_id, self._claim
        split_batch = partial(self._resources.split_batch, worker_id, claim)
        ending = await store.complete_in(
            self._resources.database,
            connection,
            worker_id,
            claim,
            self._completions,
            split_batch,
            duration_s=self._duration_s,
        )
        self._asked_again = self._asked_again or ending == "rerun"

    async def end(self, outcome: Outcome, error: BaseException | None) -> Outcome:
        """Return the outcome of the run, after its transactions have ended. If cancelled, nothing more is committed."""
        if not self._completions:
            return outcome
        since = asyncio.get_running_loop().time()
        statuses: list[store.CommitStatus] = [
            await self._resources.commit_status(self._worker_id, self._claim, locked, since, self._is_open)
            for locked in reversed(self._completions)
        ]
        if "committed" in statuses:
            self.settled = "rerun" if self._asked_again else "completed"
            if error is not None and not isinstance(outcome, Interrupted):
                said = outcome.error if isinstance(outcome, TimedOut) else error_text(error)
                self._emit(ErrorIgnored, error, error=said)
            return Completed()
        if "lost" in statuses:
            self.settled = "lost"
        elif isinstance(outcome, Completed):
            return Failed(_said_of_own(statuses))
        return outcome

    def _is_open(self) -> None:
        said = "the handler's own transaction, in which it called ctx.complete, is still open"
        self._emit(CommitUncertain, error=said)


class JobTransaction(_Settling):
    """Settles a run of a transactional task, in the transaction of its handler."""

    def __init__(
        self, resources: HandlerResources, claim: Claim, task: str, worker_id: int, isolation: Isolation
    ) -> None:
        super().__init__(resources, claim, task, worker_id)
        self._isolation = isolation
        self._transaction: store.Transaction | None = None
        self._locked: store.LockedClaim | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_beginning = False
        self._has_ended = False

    @property
    def connection(self) -> Connection:
        if self._transaction is None or self._locked is None:
            raise TransactionUnusable("the transaction of this job has ended: its context cannot be used any more")
        return self._transaction.connection

    async def begin(self) -> None:
        """Begin, in the handler's own task, so that its cancellation ends the wait too; `end` cleans up.

        Raises ClaimLost, or PoolExhausted after `pool_wait`. TransactionUnusable if the run has ended meanwhile,
        because a middleware did not wait for its handler.
        """
        self._is_beginning = True
        try:
            await self._begin()
        finally:
            self._is_beginning = False
            if self._has_ended:
                await self._close()

    async def _begin(self) -> None:
        self._refuse_after_end()
        connection = await self._resources.pool.take()
        if (current := asyncio.current_task()) is not None and current.cancelling():
            # The connection arrived in the moment of the cancellation, which the driver swallowed.
            await self._resources.pool.put_back(connection)
            raise asyncio.CancelledError
        self._transaction = store.Transaction(self._resources.database, connection, self._isolation)
        self._refuse_after_end()
        await self._transaction.begin()
        self._refuse_after_end()
        locked = await store.lock_claim(self._resources.database, connection, self._worker_id, self._claim)
        if not locked.is_current:
            raise ClaimLost(self._claim.id)
        self._refuse_after_end()
        self._locked = locked
        self._report_in(TELL_AFTER_S, TELL_AFTER_S)

    def _refuse_after_end(self) -> None:
        if self._has_ended:
            raise TransactionUnusable("the run of this job has ended before its handler began")

    async def complete(self, connection: Connection) -> None:  # noqa: ARG002 - whatever it is
        raise ConfigurationError(
            f"task {self._task!r} is transactional: its jobs are completed by its return; "
            "ctx.complete is for handlers that have their own transaction"
        )

    async def end(self, outcome: Outcome, error: BaseException | None) -> Outcome:
        """End the transaction, and return the outcome of the run. If cancelled, nothing more is committed."""
        transaction, locked = self._transaction, self._locked
        self._has_ended = True
        self._locked = None  # Tasks that the handler left behind must not use its connection any more.
        try:
            if locked is None or transaction is None:
                return _not_begun(outcome, error)
            rest = rest_of(outcome)
            if isinstance(outcome, Completed) or (rest is not None and rest.some_are_done):
                return await self._complete(transaction, locked, outcome)
        finally:
            if not self._is_beginning:  # else `begin` closes it, whose statement still runs
                await self._close()
        if isinstance(outcome, Failed) and (transaction.was_lost or (error is not None and is_conflict(error))):
            return Aborted(outcome.error)
        return outcome

    async def _complete(self, transaction: store.Transaction, locked: store.LockedClaim, outcome: Outcome) -> Outcome:
        resources, rest = self._resources, rest_of(outcome)
        try:
            async with asyncio.timeout(COMPLETE_S):
                ending = await store.complete_claim(
                    resources.database,
                    transaction.connection,
                    self._worker_id,
                    self._claim,
                    locked.xid,
                    outcome,
                    duration_s=self._duration_s,
                    rest=None if rest is None else rest.payload,
                )
        except (StoreError, TimeoutError) as error:
            # The connection was lost, or the server refused: nothing is committed, because COMMIT was not sent.
            return _undone(error)
        if ending == "cancelled":
            return Returned()  # Another session ended the claim, and recorded how the job ends; nothing is committed.
        if ending == "lost":
            self.settled = "lost"
            return Completed()
        since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(resources.lease_s):
                await transaction.commit()
        except (StoreUnavailable, TimeoutError) as error:
            self.abandon()
            # With items left the claim stays, and the next run finds the payload that was committed.
            return await self._find_out(locked, since, "lost" if ending == "in part" else ending, error)
        except StoreError as error:
            return _undone(error)
        if ending == "in part":
            return outcome
        self.settled = ending
        return Completed()

    async def _find_out(self, locked: store.LockedClaim, since: float, ending: Settled, error: Exception) -> Outcome:
        """Find the outcome after the answer to COMMIT was lost."""
        self._emit(CommitUncertain, error=error_text(error))
        status = await self._resources.commit_status(self._worker_id, self._claim, locked, since, _nothing)
        match status:
            case "committed":
                self.settled = ending
            case "lost":
                self.settled = "lost"
            case "aborted":
                said = f"CommitLost: the connection was lost at COMMIT, nothing was kept: {error_text(error)}"
                return Aborted(clean_error(said))
            case "unknown" | "in progress":
                said = (
                    "CommitUnknown: the connection was lost at COMMIT, and this server does not know transaction "
                    f"{locked.xid}; the job was not completed here: {error_text(error)}"
                )
                return Aborted(clean_error(said))
            case _:
                assert_never(status)
        return Completed()

    def abandon(self) -> None:
        """Give up a run that will not be settled: an open transaction must not be committed."""
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transaction is not None:
            cut_off(self._transaction.connection)  # The server rolls back when it notices that.

    async def _close(self) -> None:
        """Roll back an open transaction, and return the connection."""
        if self._timer is not None:
            self._timer.cancel()
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.roll_back()
            await self._resources.pool.put_back(transaction.connection)

    def _report_in(self, delay_s: float, open_s: float) -> None:
        """Report after a while how long the transaction is open, and again at each doubling."""

        def report() -> None:
            self._emit(TransactionOpen, open_s=open_s)
            self._report_in(open_s, 2 * open_s)

        self._timer = asyncio.get_running_loop().call_later(delay_s, report)


Settling = OwnTransactions | JobTransaction


def _not_begun(outcome: Outcome, error: BaseException | None) -> Outcome:
    """The outcome of a run whose transaction did not begin, so that its handler was not called."""
    match error:
        case ClaimLost():
            return Returned()  # Refused; if the job was cancelled, the settlement cancels it.
        case AsyncqError():
            return Aborted(clean_error(f"{type(error).__name__}: {error}"))
        case _:
            return outcome


def _undone(error: Exception) -> Outcome:
    """The outcome of a run that the server did not commit."""
    is_our_doing = not isinstance(error, StoreError) or error.sqlstate != store.ENDED
    done = "the transaction was rolled back: " if is_our_doing else ""
    said = clean_error(f"{type(error).__name__}: {done}{error_text(error)}")
    return Aborted(said) if isinstance(error, TimeoutError) or is_transient(error) else Failed(said)


def _said_of_own(statuses: Sequence[store.CommitStatus]) -> str:
    if "unknown" in statuses:
        return (
            "CommitUnknown: ctx.complete was called, but the job was not completed: this server does not know its "
            "transaction, or the savepoint was rolled back in which that was done"
        )
    return "TransactionRolledBack: ctx.complete was called, but its transaction was rolled back"


def _nothing() -> None:
    """Do nothing: it was reported before."""

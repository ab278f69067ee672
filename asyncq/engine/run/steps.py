"""The steps of a run: what a step returned is stored with the job, and a later run gets it instead of a call.

the worker dies                              the next run
before or while the function is called       calls it
after it returned, before the commit         calls it again; what a tx_step wrote was rolled back
after the commit                             gets what it returned
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

import anyio

from asyncq.domain.errors import ClaimLost, StoreUnavailable, TaskError, TransactionUnusable
from asyncq.domain.events import StepDone
from asyncq.domain.job import Claim
from asyncq.domain.step_result import MOST_STEPS, check_name, read_step, write_step
from asyncq.engine.base import user_code
from asyncq.engine.run.transactions import HandlerResources
from asyncq.store.failures import lending
from asyncq.store.steps import read_steps, store_step
from asyncq.store.transactions import Transaction

# Longer than `_store_step` waits for a lock.
STORE_S = 15.0


class Steps:
    """The steps of one run; the first one reads those of earlier runs, by one statement.

    Attempts and interruptions do not say whether there was an earlier run. A snooze counts as neither, nor does the
    death of a worker that had not named the job. A retry by hand sets both to zero.
    """

    def __init__(self, resources: HandlerResources, claim: Claim, task: str, worker_id: int) -> None:
        self._resources = resources
        self._claim = claim
        self._task = task
        self._worker_id = worker_id
        self._names: set[str] = set()
        self._earlier: dict[str, str] | None = None
        self._reading = anyio.Lock()

    async def step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function unless an earlier run did, and store what it returned."""

        async def call() -> Any:
            began_at = time.perf_counter()
            value = await _called(function, args, kwargs)
            return await _finished(self._store, name, value, began_at)

        return await self._once(name, call)

    async def tx_step(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function with a transaction, in which the step is stored too."""

        async def call() -> Any:
            began_at = time.perf_counter()
            async with self._transaction() as transaction:
                with lending:
                    value = await _called(function, (transaction.connection, *args), kwargs)
                return await _finished(self._commit, transaction, name, value, began_at)

        return await self._once(name, call)

    async def _once(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self._begin(name)
        try:
            earlier = await self._read()
            if name in earlier:
                return read_step(self._resources.database.envelopes, self._task, name, earlier[name])
            if len(self._names | earlier.keys()) > MOST_STEPS:
                raise TaskError(f"a job has at most {MOST_STEPS:,} steps: let one step do more, or add jobs")
            return await call()
        except BaseException:
            # The handler may call it again in this run. Then it is read whether the step was stored.
            self._names.discard(name)
            self._earlier = None
            raise

    def _begin(self, name: str) -> None:
        check_name(name)
        if name in self._names:
            said = f"step {name!r} was called before in this run: each step of a job needs a name of its own"
            raise TaskError(f"{said}, such as {name + ' 2'!r}")
        self._names.add(name)

    async def _read(self) -> dict[str, str]:
        """The steps of earlier runs. Steps that begin together wait for one read."""
        async with self._reading:
            if (earlier := self._earlier) is None:
                async with self._resources.pool.acquire() as connection:
                    earlier = await read_steps(self._resources.database, connection, self._claim.id)
                self._earlier = earlier
            return earlier

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Transaction]:
        """A transaction on a connection for handlers, which is rolled back unless it was committed."""
        async with self._resources.pool.acquire() as connection:
            transaction = Transaction(self._resources.database, connection, "read_committed")
            try:
                await transaction.begin()
                yield transaction
            finally:
                await transaction.roll_back()

    async def _store(self, name: str, value: Any, began_at: float) -> Any:
        async with self._transaction() as transaction:
            return await self._commit(transaction, name, value, began_at)

    async def _commit(self, transaction: Transaction, name: str, value: Any, began_at: float) -> Any:
        """Store the step in the transaction, commit it, and return the value as a later run gets it."""
        database, connection = self._resources.database, transaction.connection
        value, text = write_step(database.envelopes, self._task, name, value)
        if not connection.is_in_transaction():
            raise TransactionUnusable(f"the function of step {name!r} has ended its transaction, which it must not do")
        try:
            async with asyncio.timeout(STORE_S):
                if not await store_step(database, connection, self._worker_id, self._claim, name, text):
                    raise ClaimLost(self._claim.id)
                await transaction.commit()
        except TimeoutError as error:
            said = f"the server did not answer within {STORE_S:g} s when step {name!r} was stored"
            raise StoreUnavailable(said, outcome="unknown") from error
        self._done(name, began_at)
        return value

    def _done(self, name: str, began_at: float) -> None:
        observers, claim = self._resources.observers, self._claim
        if observers.wanted(StepDone):
            about: dict[str, Any] = {"task": self._task, "attempt": claim.attempts + 1, "worker_id": self._worker_id}
            observers.emit(StepDone(claim=claim, **about, name=name, duration_s=time.perf_counter() - began_at))


async def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value: Any = function(*args, **kwargs)
    return await value if isawaitable(value) else value


async def _finished(work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    """Wait for the end of the work in spite of a cancellation, which goes on after that.

    The function of a step has returned, and the effect outside of the database cannot be undone: the step is stored.
    """
    running = user_code.start(copy_context(), work, args)
    try:
        end = await user_code.end_of(running)
    except asyncio.CancelledError:
        # A scope of anyio would cancel each further await.
        with anyio.CancelScope(shield=True):
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await user_code.end_of(running)
        raise
    if isinstance(end, user_code.Raised):
        raise end.error
    return end

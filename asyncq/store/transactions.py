"""Transactions that also settle a job: they lock its claim, complete it, and read the status of a COMMIT.

If a completion is cancelled, whether the job is completed depends on the transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from asyncq.domain.errors import ClaimLost, TransactionUnusable
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Completed, Outcome
from asyncq.store.database import Connection, Database, ReconnectingConnection
from asyncq.store.failures import UNTIDY, calling, cut_off, is_closed

Completion = Literal["completed", "in part", "rerun", "cancelled here", "cancelled", "lost"]
CommitStatus = Literal["in progress", "committed", "aborted", "unknown", "lost"]

ROLLBACK_S = 5.0
ENDED = "25P01"  # the handler has ended the transaction


class LockedClaim(msgspec.Struct, frozen=True):
    """A transaction that locks a claim, whose state is that of sql/functions/settle/lock_claim.sql."""

    xid: str
    pid: int
    state: Literal["locked", "batched", "cancelled", "gone"]

    @property
    def is_current(self) -> bool:
        return self.state == "locked"


async def lock_claim(database: Database, connection: Connection, worker_id: int, claim: Claim) -> LockedClaim:
    """Lock a claim, which may have ended, until the transaction ends, which cannot be used if this is cancelled."""
    (row,) = await database.fetch(connection, "lock_claim", worker_id, claim.id, claim.token)
    return LockedClaim(row["xid"], row["pid"], row["state"])


async def complete_claim(
    database: Database,
    connection: Connection,
    worker_id: int,
    claim: Claim,
    xid: str,
    outcome: Outcome = Completed(),  # noqa: B008 - it is frozen
    *,
    duration_s: float,
    rest: str | None = None,
) -> Completion:
    """Complete a job in the transaction that locks its claim; waits for other locks of its row.

    The outcome has the result of the handler, if it has returned. `duration_s` is the time of the run until now. With a
    rest, the payload of the items that are left to do, the claim stays: `"in part"`.

    After `"cancelled here"` this transaction had cancelled the job. After `"cancelled"` and `"lost"` nothing was
    written, and the transaction has to be rolled back. TransactionUnusable if it is aborted, or has ended.
    """
    with calling(database.schema):
        if not connection.is_in_transaction():
            raise TransactionUnusable(
                "the transaction in which the job was to be completed has ended: its handler must not end it",
                sqlstate=ENDED,
            )
    result, fault = (outcome.result, outcome.fault) if isinstance(outcome, Completed) else (None, None)
    arguments = (worker_id, claim.id, claim.token, xid, result, duration_s, rest, fault)
    (row,) = await database.fetch(connection, "complete_claim", *arguments)
    return row["ending"]


class Transaction:
    """A transaction on a connection for handlers; after `was_lost` no rollback was possible."""

    def __init__(self, database: Database, connection: Connection, isolation: str) -> None:
        self._database = database
        self._block = connection.transaction(isolation=isolation)  # type: ignore[arg-type]
        self.connection = connection
        self._began = False
        self.was_lost = False

    async def begin(self) -> None:
        """Begin the transaction. If cancelled, the connection cannot be used: `roll_back` closes it."""
        with calling(self._database.schema):
            await self._block.start()
        self._began = True

    async def commit(self) -> None:
        """Commit. The outcome is unknown after a StoreUnavailable, or if cancelled; else an error rolled all back."""
        with calling(self._database.schema):
            # The driver's own commit ignores that an aborted transaction answers ROLLBACK.
            answer = await self.connection.execute("COMMIT")
        if answer != "COMMIT":
            raise TransactionUnusable(
                "the transaction was aborted: a statement in it had failed, so everything was rolled back",
                sqlstate="25P02",
            )

    async def roll_back(self) -> None:
        """Roll back. The connection stays usable, or is closed, also if cancelled. Never raises a driver's error."""
        ended = False
        try:
            if self._began:
                async with asyncio.timeout(ROLLBACK_S):
                    # After a COMMIT too: the driver has to know that its block is over. This costs a round trip.
                    await self._block.rollback()
                ended = True
        except UNTIDY:
            ended = False
        finally:
            if not ended:
                self.was_lost = is_closed(self.connection)
                cut_off(self.connection)  # The server rolls back when it notices that.


async def commit_status(line: ReconnectingConnection, worker_id: int, claim: Claim, xid: str) -> CommitStatus:
    """Read the status of a transaction that should have completed a job; raises on a standby too.

    After `"aborted"` and `"unknown"` the claim still exists. `"lost"`: it ended, but not by this transaction.
    """
    (row,) = await line.fetch("commit_status", worker_id, claim.id, claim.token, xid)
    return row["commit_status"]


async def end_transaction(line: ReconnectingConnection, locked: LockedClaim) -> None:
    """End the session of a transaction, if it is open; this role may lack the privilege."""
    await line.fetch("end_transaction", locked.pid, locked.xid)


async def end_transactions(line: ReconnectingConnection) -> list[tuple[int, int | None]]:
    """End transactions that lock claims of workers without a beat for twice their lease; returns each (worker, job)."""
    return [(row["worker_id"], row["job_id"]) for row in await line.fetch("end_transactions")]


async def complete_in(
    database: Database,
    connection: Connection,
    worker_id: int,
    claim: Claim,
    before: list[LockedClaim],
    split_batch: Callable[[], Awaitable[bool]],
    *,
    duration_s: float,
) -> Completion:
    """Complete a job in the handler's own transaction, and return the job's state if the transaction is committed.

    `before` are the earlier transactions of this run that completed the job; this one is appended before it writes.
    `split_batch` makes the claim a row, on a connection of the worker, and returns whether the claim still exists.

    ClaimLost if the claim has ended, or its job was cancelled. TransactionUnusable if there is no transaction, it
    refuses writes, or its snapshot is older than the job's row.
    """
    with calling(database.schema):
        if not connection.is_in_transaction():
            raise TransactionUnusable("a job is completed in a transaction: begin one on this connection first")
    locked = await lock_claim(database, connection, worker_id, claim)
    if not locked.is_current and any(locked.xid == earlier.xid for earlier in before):
        return "completed"
    if locked.state == "batched" or (locked.state == "gone" and await _keeps_its_snapshot(database, connection)):
        # Only now: if this transaction has cancelled another job of the batch, it locks the batch, and sees the row.
        locked = await _lock_split(database, connection, worker_id, claim, split_batch)
    if not locked.is_current:
        raise ClaimLost(claim.id)
    before.append(locked)
    ending = await complete_claim(database, connection, worker_id, claim, locked.xid, duration_s=duration_s)
    if ending in ("cancelled", "lost"):
        raise ClaimLost(claim.id)
    return ending


async def _keeps_its_snapshot(database: Database, connection: Connection) -> bool:
    with calling(database.schema):
        level = await connection.fetchval("select pg_catalog.current_setting('transaction_isolation')")
    return level in ("repeatable read", "serializable")


async def _lock_split(
    database: Database, connection: Connection, worker_id: int, claim: Claim, split_batch: Callable[[], Awaitable[bool]]
) -> LockedClaim:
    exists = await split_batch()
    locked = await lock_claim(database, connection, worker_id, claim)
    if exists and locked.state in ("batched", "gone"):
        raise TransactionUnusable(
            f"the snapshot of this transaction is older than the row of job {claim.id}: begin the transaction again. "
            "Or declare the task with completes=True: its jobs then have rows from the start"
        )
    return locked


async def split_batch(line: ReconnectingConnection, worker_id: int, claim: Claim) -> Literal["row", "locked", "gone"]:
    """Split the batch of a claim, unless another transaction locks it; returns the state, see split_batches.sql.

    The connection is one of the worker: one of a handler would lock the batch.
    """
    (row,) = await line.fetch("split_batch_of_claim", worker_id, claim.id, claim.token)
    return row["state"]

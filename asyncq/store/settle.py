"""The ends of claims. Each statement changes only claims that the worker holds, by its id and the fetch's token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from asyncq.domain.job import Claim
from asyncq.domain.outcome import Ending, Settlement
from asyncq.store.arrays import array_numbers, array_text
from asyncq.store.claim import in_order, read_claim
from asyncq.store.database import ReconnectingConnection

_id = attrgetter("id")


async def complete(line: ReconnectingConnection, worker_id: int, ended: Collection[Claim]) -> set[int]:
    """Write that jobs ended well, where the worker still holds the very claims.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are.
        ended: At most one for each job.

    Returns:
        The ids of the jobs that were written. Those that `settle_rest` has to write are not among them.

    Raises:
        StoreError: See `failures.calling`. All was written or nothing: what is settled twice changes nothing.

    If cancelled, the same holds: callers shield it.
    """
    ids, tokens = _claims(sorted(ended, key=_id))
    (row,) = await line.fetch("settle_completed", worker_id, array_text(ids), array_text(tokens))
    return set(ids if row["written"] is None else array_numbers(row["written"]))


async def claim_next(
    line: ReconnectingConnection,
    worker_id: int,
    ended: Collection[Claim],
    limit: int,
    token: int,
    task_ids: Collection[int],
    forbidden_flags: Sequence[str] | None,
) -> tuple[set[int], list[Claim]]:
    """Write that jobs ended well, as `complete` does, and claim those that follow in their queues.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are, and who claims.
        ended: At most one for each job.
        limit: How many to claim at most.
        token: A number that this worker never used before.
        task_ids: The tasks that the worker knows.
        forbidden_flags: Jobs with one of these are left alone.

    Returns:
        The ids of the jobs that were written, and the claims, in the order in which they are to run.

    Raises:
        StoreError: See `failures.calling`. All was done or nothing; claims whose answer was lost: see `return_lost`.

    If cancelled, the same holds: callers shield it.
    """
    rows = await line.fetch(
        "claim_next",
        worker_id,
        *map(array_text, _claims(sorted(ended, key=_id))),
        limit,
        token,
        array_text(task_ids),
        forbidden_flags,
        None,
    )
    written = {row["settled"] for row in rows if row["settled"] is not None}
    claims = [read_claim(*list(row)[1:]) for row in rows if row["settled"] is None]
    return written, in_order(claims)


async def settle_rest(
    line: ReconnectingConnection, worker_id: int, settlements: Collection[Settlement]
) -> dict[int, Ending]:
    """Write the ends that `complete` does not write, where the worker still holds the very claims.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are.
        settlements: At most one for each job.

    Returns:
        The id of each job -> what became of its settlement.

    Raises:
        StoreError: See `failures.calling`. All was written or nothing: what is settled twice changes nothing.

    If cancelled, the same holds: callers shield it.
    """
    items = sorted(settlements, key=_id)
    rows = await line.fetch(
        "settle_rest",
        worker_id,
        *_claims(items),
        [item.done for item in items],
        [item.attempts for item in items],
        [item.delay_s for item in items],
        [item.error for item in items],
        [item.interruptions for item in items],
    )
    return {row["id"]: row["ending"] for row in rows}


async def return_lost(line: ReconnectingConnection, worker_id: int, tokens: Collection[int]) -> set[int]:
    """Return the claims of fetches whose answer was lost.

    Args:
        line: A connection.
        worker_id: Who fetched.
        tokens: The tokens of those fetches.

    Returns:
        The ids of the jobs that were returned; those that were cancelled meanwhile have ended.

    Raises:
        StoreError: See `failures.calling`.
    """
    return set(await _ids(line, "return_lost", worker_id, sorted(tokens)))


async def still_claimed(line: ReconnectingConnection, worker_id: int, tokens: Collection[int]) -> set[int]:
    """What `return_lost` has passed by, since somebody else holds it.

    Args:
        line: A connection.
        worker_id: Who fetched.
        tokens: The tokens of those fetches.

    Returns:
        The tokens of those of which a claim stands.

    Raises:
        StoreError: See `failures.calling`.
    """
    return set(await _ids(line, "still_claimed", worker_id, sorted(tokens)))


def _claims(settlements: Sequence[Claim | Settlement]) -> tuple[list[int], list[int]]:
    return [item.id for item in settlements], [item.token for item in settlements]


async def _ids(line: ReconnectingConnection, name: str, *args: Any) -> list[int]:
    return [row[0] for row in await line.fetch(name, *args)]

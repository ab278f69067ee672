"""The ends of claims. Each statement changes only claims that the worker holds, by its id and the fetch's token.

A statement writes all or nothing; a repetition writes nothing twice. If it is cancelled, the same holds: callers shield
it. It takes at most one end of each job.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from asyncq.domain.job import Claim
from asyncq.domain.outcome import Ending, Settlement
from asyncq.store.arrays import array_numbers, array_text
from asyncq.store.claim import in_order, read_claim
from asyncq.store.database import ReconnectingConnection

_id = attrgetter("id")


class Past(msgspec.Struct, frozen=True, gc=False):
    """The part of a completed run that is kept with its job: its duration, and the return value as JSON."""

    duration_s: float
    result: str | None


Kept = Mapping[int, Past] | None
"""The completed runs, by the id of the job; None if no job of them is kept."""


async def complete(line: ReconnectingConnection, worker_id: int, ended: Collection[Claim], kept: Kept) -> set[int]:
    """Write that jobs completed; returns the ids of the written ones. `settle_rest` has to write the others."""
    ids, tokens = _claims(sorted(ended, key=_id))
    (row,) = await line.fetch("settle_completed", worker_id, array_text(ids), array_text(tokens), *_past(ids, kept))
    return set(ids if row["written"] is None else array_numbers(row["written"]))


async def claim_next(
    line: ReconnectingConnection,
    worker_id: int,
    ended: Collection[Claim],
    kept: Kept,
    limit: int,
    token: int,
    task_ids: Collection[int],
    forbidden_flags: Sequence[str] | None,
) -> tuple[set[int], list[Claim]]:
    """Write that jobs completed, as `complete` does, and claim up to `limit` next jobs of their partitions.

    The worker never used the token before. Returns the ids of the written jobs, and the new claims in the order in
    which they run. After a lost answer, see `return_lost`.
    """
    ids, tokens = _claims(sorted(ended, key=_id))
    known, past = array_text(task_ids), _past(ids, kept)
    arguments = (worker_id, array_text(ids), array_text(tokens), limit, token, known, forbidden_flags, None, *past)
    rows = await line.fetch("claim_next", *arguments)
    written = {row["settled"] for row in rows if row["settled"] is not None}
    claims = [read_claim(*list(row)[1:]) for row in rows if row["settled"] is None]
    return written, in_order(claims)


async def settle_rest(
    line: ReconnectingConnection, worker_id: int, settlements: Collection[Settlement]
) -> dict[int | None, Ending]:
    """Write the ends that `complete` does not write; returns the id of each job -> the result of its settlement.

    The key None says that there are waiters to look at.
    """
    items = sorted(settlements, key=_id)
    ids, tokens = _claims(items)
    rows = await line.fetch(
        "settle_rest",
        worker_id,
        array_text(ids),
        array_text(tokens),
        [item.end for item in items],
        array_text(item.attempts for item in items),
        array_text(item.delay_s for item in items),
        [item.error for item in items],
        array_text(item.interruptions for item in items),
        [item.kind for item in items],
        array_text(item.duration_s for item in items),
        [item.result for item in items],
        [item.payload for item in items],
    )
    return {row["id"]: row["ending"] for row in rows}


class BackedOff(msgspec.Struct, frozen=True):
    """Until when no job of a partition starts, and one job that asked. The key of a queue is its name."""

    job_id: int
    limit: str | None
    key: str
    until: datetime


async def back_off(
    line: ReconnectingConnection, worker_id: int, claims: Sequence[Claim | Settlement], delays_s: Sequence[float]
) -> list[BackedOff]:
    """Let no job of the partitions of these claims start for so many seconds each; lost claims ask for nothing.

    StoreError if a fetch holds a partition too long.
    """
    rows = await line.fetch("back_off", worker_id, *_claims(claims), delays_s)
    return [BackedOff(row["job_id"], row["limit_name"], row["key"] or "", row["until"]) for row in rows]


async def return_lost(line: ReconnectingConnection, worker_id: int, tokens: Collection[int]) -> set[int]:
    """Return the claims of fetches with a lost answer, by the tokens of the fetches.

    Returns the ids of the returned jobs; those that were cancelled in the meantime have ended.
    """
    return {row["id"] for row in await line.fetch("return_lost", worker_id, sorted(tokens))}


async def still_claimed(line: ReconnectingConnection, worker_id: int, tokens: Collection[int]) -> set[int]:
    """Return the tokens with a claim that `return_lost` skipped, because another transaction locked it."""
    return {row["lock_token"] for row in await line.fetch("still_claimed", worker_id, sorted(tokens))}


def _past(ids: Sequence[int], kept: Kept) -> tuple[str | None, str | None]:
    if kept is None:
        return None, None
    runs = [kept[job_id] for job_id in ids]
    return "\x1e".join([run.result or "" for run in runs]), array_text(int(run.duration_s * 1e6) for run in runs)


def _claims(settlements: Sequence[Claim | Settlement]) -> tuple[list[int], list[int]]:
    return [item.id for item in settlements], [item.token for item in settlements]

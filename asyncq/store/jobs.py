"""The hot path: fetch, settle, return. Rows in, structs out; every rule stands in SQL or in the domain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import StoreError, StoreUnavailable
from asyncq.domain.job import Claim
from asyncq.domain.moment import read_moment
from asyncq.domain.outcome import Ending, Settlement
from asyncq.store.arrays import array_numbers, array_text, sent_numbers
from asyncq.store.database import ReconnectingConnection

# Of a claim, where it stands in the order of running; of a settlement, its job.
_place = attrgetter("priority", "due", "id")
_id = attrgetter("id")


# The least batch: what a smaller one saves is lost where a single job of it has to be unpacked.
PACK_FROM = 100

Form = Literal["all", "plain first", "plain"]
"""Which jobs a fetch asks for, see `fetch_jobs`."""


class Place(msgspec.Struct, frozen=True):
    """Where the next fetch begins: behind this place in the order of running; the start by default.

    Attributes:
        since_s: Jobs without a queue that became due longer ago, in seconds, are left out; none by default.
    """

    priority: int | None = None
    run_at: datetime | None = None
    id: int | None = None
    since_s: float | None = None


START = Place()


async def fetch_jobs(
    line: ReconnectingConnection,
    worker_id: int,
    token: int,
    limit: int,
    task_ids: Collection[int],
    forbidden_flags: Sequence[str] | None,
    after: Place,
    form: Form = "plain first",
    packable: Collection[int] = (),
) -> list[Claim]:
    """Claim due jobs.

    Args:
        line: The worker's connection for fetching.
        worker_id: Who claims.
        token: A number that this worker never used before.
        limit: How many at most.
        task_ids: The tasks that the worker knows.
        forbidden_flags: Jobs with one of these are left alone.
        after: Where to begin.
        form: "all" jobs; "plain first": the same, but asked first as if no job of a queue waited, which is cheaper if
            that is so; "plain": jobs without a queue alone, whatever waits beside them.
        packable: The tasks whose jobs may be claimed in a batch: their handlers do not complete them by themselves.

    Returns:
        The claims, in the order in which they are to run.

    Raises:
        StoreError: See `failures.calling`. The server may have claimed jobs whose answer was lost; they come back after
            the lease.

    If cancelled, claims may be lost until the lease ends: callers shield it.
    """
    place = (after.priority, after.run_at, after.id)
    arguments = (worker_id, token, limit, array_text(task_ids), forbidden_flags, *place, None, after.since_s)
    packing = (PACK_FROM, array_text(packable))
    rows = [] if form == "all" else await line.fetch("fetch_plain_jobs", *arguments, form == "plain", *packing)
    if rows or form == "plain":
        claims = [claim for row in rows for claim in _plain(token, *row)]
    else:
        claims = [read_claim(*row) for row in await line.fetch("fetch_jobs", *arguments, *packing)]
    claims.sort(key=_place)
    return claims


async def plan(line: ReconnectingConnection) -> None:
    """Let the server plan the statements of `fetch_jobs` on this connection, which takes longer than a fetch.

    Raises:
        StoreError: See `failures.calling`.
    """
    await fetch_jobs(line, 0, 0, 0, [], None, START)


def read_claim(*row: Any) -> Claim:
    """A row of `fetch_jobs`."""
    return Claim(*row[:9], *map(read_moment, row[9:12]), *row[12:])


class Rest(msgspec.Struct, frozen=True, array_like=True):
    """What `fetch_plain_jobs` tells only of jobs of which there is more to tell than that they were added."""

    attempts: int
    interruptions: int
    revision: int
    flags: str | None
    meta: str | None
    last_error: str | None


_read_rest = msgspec.json.Decoder(Rest).decode
_ONLY_ADDED = Rest(0, 0, 0, None, None, None)


def _plain(token: int, *row: Any) -> Sequence[Claim]:
    """A row of `fetch_plain_jobs`: a job, or a batch."""
    return [_single(token, *row[:10])] if row[0] is not None else _batch(token, *row[10:])


def _single(
    token: int,
    id: int,
    task_id: int,
    max_attempts: int,
    priority: int,
    run_at: bytes,
    created_at: bytes | None,
    updated_at: bytes | None,
    key: str | None,
    payload: str,
    rest: str | None,
) -> Claim:
    """A job, of which null stands for what is usual."""
    due = read_moment(run_at)
    created = read_moment(created_at) if created_at else due
    updated = read_moment(updated_at) if updated_at else created
    more = _ONLY_ADDED if rest is None else _read_rest(rest)
    return Claim(
        *(id, task_id, None, token, more.attempts, max_attempts, more.interruptions, priority, more.revision),
        *(due, created, updated, key, more.flags, payload, more.meta, more.last_error),
    )


def _batch(
    token: int,
    ids: bytes,
    task_ids: bytes,
    limits: bytes,
    priorities: bytes,
    due: bytes,
    created: bytes | None,
    payloads: str,
) -> list[Claim]:
    """The jobs of a batch, which were only added: an array of each column that tells more."""
    moments = sent_numbers(due, "q")
    # fmt: off
    return [
        Claim(
            id, task_id, None, token, 0, max_attempts, 0, priority, 0,
            due, created, created, None, None, payload, None, None,
        )
        for id, task_id, max_attempts, priority, due, created, payload in zip(
            sent_numbers(ids, "q"), sent_numbers(task_ids, "i"), sent_numbers(limits, "h"),
            sent_numbers(priorities, "h"), moments, sent_numbers(created, "q") if created else moments,
            payloads.split("\x1e"), strict=True,
        )
    ]
    # fmt: on


async def next_due_s(line: ReconnectingConnection, since_s: float | None, after: Place = START) -> float | None:
    """How long until the next job is due.

    Args:
        line: The worker's connection for fetching.
        since_s: Seconds since the last fetch was sent: jobs that became due since then count; None: all that are due.
        after: Where that fetch began: jobs without a queue that lie before it do not count.

    Returns:
        Seconds, 0 or less if one is due already; None when no job waits for its time.

    Raises:
        StoreError: See `failures.calling`.
    """
    rows = await line.fetch("next_due", since_s, None, after.priority, after.run_at, after.id, None, None)
    delay_s: float | None = rows[0]["delay_s"]
    return delay_s


async def poll(line: ReconnectingConnection, worker_id: int, offer: int) -> tuple[float | None, bool]:
    """The one question of an idle worker.

    Args:
        line: The worker's connection for fetching.
        worker_id: Who asks.
        offer: The token of the offer that it has made, 0 if none.

    Returns:
        As `next_due_s`, of all jobs that are due or will be; whether the offer was taken.

    Raises:
        StoreError: See `failures.calling`.
    """
    (row,) = await line.fetch("next_due", None, None, None, None, None, worker_id, offer)
    return row["delay_s"], row["is_taken"]


async def complete(line: ReconnectingConnection, worker_id: int, ended: Collection[Claim | Settlement]) -> set[int]:
    """Write that jobs ended well, where the worker still holds the very claims.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are.
        ended: At most one for each job.

    Returns:
        The ids of the jobs that were written. Those that `settle_special` has to write are not among them.

    Raises:
        StoreError: See `failures.calling`. All was written or nothing: what is settled twice changes nothing.

    If cancelled, the same holds: callers shield it.
    """
    ids, tokens = _claims(sorted(ended, key=_id))
    (row,) = await line.fetch("settle_completed", worker_id, array_text(ids), array_text(tokens))
    return set(ids if row["written"] is None else array_numbers(row["written"]))


async def settle(line: ReconnectingConnection, worker_id: int, settlements: Collection[Settlement]) -> set[int]:
    """Write what runs came to, where the worker still holds the very claims.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are.
        settlements: At most one for each job.

    Returns:
        The ids of the jobs that were written. Those that `settle_special` has to write are not among them.

    Raises:
        StoreError: See `failures.calling`. Part of it may have been written, of which a `StoreUnavailable` tells as an
            unknown outcome: what is settled twice changes nothing.

    If cancelled, the same holds: callers shield it.
    """
    written: set[int] = set()
    in_order = sorted(settlements, key=_id)
    try:
        if done := [item for item in in_order if item.done]:
            written |= await complete(line, worker_id, done)
        changed = [item for item in in_order if not item.done]
        written |= await _change(line, worker_id, changed)
        missed = [item for item in changed if item.id not in written]
        if missed and await _ids(line, "unpack", worker_id, sorted({item.token for item in missed})):
            written |= await _change(line, worker_id, missed)
    except StoreError as error:
        if written:  # by the statements before, each of which is committed
            raise StoreUnavailable(str(error), outcome="unknown", sqlstate=error.sqlstate) from error
        raise
    return written


async def _change(line: ReconnectingConnection, worker_id: int, settlements: Sequence[Settlement]) -> set[int]:
    """Write what goes on living, as far as it is no part of a batch; the ids that were written."""
    if not settlements:
        return set()
    return set(
        await _ids(
            line,
            "settle_changed",
            worker_id,
            *_claims(settlements),
            [item.attempts for item in settlements],
            [item.delay_s for item in settlements],
            [item.error for item in settlements],
            [item.interruptions for item in settlements],
            None,
        )
    )


async def settle_and_take(
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
        "settle_and_take",
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
    return written, sorted(claims, key=_place)


async def settle_special(
    line: ReconnectingConnection, worker_id: int, settlements: Collection[Settlement]
) -> dict[int, Ending]:
    """Write settlements that `settle` has left alone: of jobs that were cancelled, asked for again, or are to be kept.

    Args:
        line: The worker's connection for settling.
        worker_id: Whose claims they are.
        settlements: Those that were not written.

    Returns:
        The id of each job that was written -> what became of it.

    Raises:
        StoreError: See `failures.calling`. All were written or none: what is settled twice changes nothing.

    If cancelled, the same holds: callers shield it.
    """
    in_order = sorted(settlements, key=_id)
    done = [item.done for item in in_order]
    rows = await line.fetch("settle_special", worker_id, *_claims(in_order), done)
    return {row["id"]: row["ending"] for row in rows}


async def still_held(line: ReconnectingConnection, worker_id: int, settlements: Collection[Settlement]) -> set[int]:
    """Of settlements that were not written: the jobs whose claims the worker still holds."""
    in_order = sorted(settlements, key=_id)
    return set(await _ids(line, "still_held", worker_id, *_claims(in_order)))


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


async def still_lost(line: ReconnectingConnection, worker_id: int, tokens: Collection[int]) -> set[int]:
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
    return set(await _ids(line, "still_lost", worker_id, sorted(tokens)))


def _claims(settlements: Sequence[Claim | Settlement]) -> tuple[list[int], list[int]]:
    return [item.id for item in settlements], [item.token for item in settlements]


async def _ids(line: ReconnectingConnection, name: str, *args: Any) -> list[int]:
    return [row[0] for row in await line.fetch(name, *args)]

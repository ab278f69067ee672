"""Claims due jobs, and reads when the next one is due. Every rule is in SQL."""

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec

from asyncq.domain.job import Claim
from asyncq.domain.moment import read_moment
from asyncq.store.arrays import array_text, sent_numbers
from asyncq.store.database import ReconnectingConnection

_place = attrgetter("priority", "due", "id")
_read_queues = msgspec.json.Decoder(list[str | None]).decode
_MOMENTS = slice(Claim.__struct_fields__.index("due"), Claim.__struct_fields__.index("updated") + 1)

# The smallest batch: splitting a smaller one for a single job costs more than the batch saves.
BATCH_FROM = 100


class Place(msgspec.Struct, frozen=True):
    """The position in the order of running after which the next fetch begins; the start by default.

    Attributes:
        since_s: Jobs without a partition that became due longer ago, in seconds, are left out; none by default.
    """

    priority: int | None = None
    run_at: datetime | None = None
    id: int | None = None
    since_s: float | None = None


START = Place()


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """The answer to a fetch.

    Attributes:
        claims: The claims in the order in which they are to run.
        are_woken: After a fetch without partitions: whether some were woken for this worker.
        again_s: After a fetch of partitions: a worker that wanted more has to fetch again after so many seconds. None
            if nothing is left for it.
        start_within_s: After a fetch of partitions: rates count some of its claims, and so many seconds after it began
            they have to start at the latest. None if no rate counts any.
    """

    claims: list[Claim]
    are_woken: bool = False
    again_s: float | None = None
    start_within_s: float | None = None


async def fetch_jobs(
    line: ReconnectingConnection,
    worker_id: int,
    token: int,
    limit: int,
    task_ids: Collection[int],
    forbidden_flags: Sequence[str] | None,
    after: Place,
    unbatched: Collection[int] = (),
    *,
    of_partitions: bool = False,
    choice: str | None = None,
    yields: bool = False,
) -> Fetched:
    """Claim up to `limit` due jobs without a partition, or those of partitions.

    The worker never used the token before. Jobs of `unbatched` tasks are never claimed in a batch. `choice` says which
    partitions are for this worker, by default all. If it `yields`, and partitions were woken, no job without a
    partition is claimed: theirs may come first. After a lost answer, or if cancelled, claims may be lost until the
    lease ends: callers shield it.
    """
    known, cursor = array_text(task_ids), (after.priority, after.run_at, after.id)
    arguments = (worker_id, token, limit, known, forbidden_flags, *cursor, None, after.since_s)
    name, last = ("fetch_partitions", choice) if of_partitions else ("fetch_jobs", yields)
    rows = await line.fetch(name, *arguments, BATCH_FROM, array_text(unbatched), last)
    columns = [*rows[0].keys()]
    of_row, end = columns.index("ids"), columns.index("start_within_s" if of_partitions else "are_woken")
    claims: list[Claim] = []
    for row in rows:
        if row["id"] is not None:
            claims.append(read_claim(*row[:of_row]))
        elif row["ids"] is not None:
            claims += _read_batch(token, *row[of_row:end])
    if of_partitions:
        return Fetched(in_order(claims), again_s=rows[0]["again_s"], start_within_s=rows[0]["start_within_s"])
    return Fetched(in_order(claims), are_woken=rows[0]["are_woken"])


async def plan(line: ReconnectingConnection) -> None:
    """Let the server plan the fetches on this connection; planning takes longer than a fetch."""
    await fetch_jobs(line, 0, 0, 0, [], None, START)
    await fetch_jobs(line, 0, 0, 0, [], None, START, of_partitions=True)


def in_order(claims: Iterable[Claim]) -> list[Claim]:
    """Sort claims into the order in which they run."""
    return sorted(claims, key=_place)


def read_claim(*row: Any) -> Claim:
    """Read a job that was claimed in its row: the columns of `_claimed`, in the order of the fields of a claim.

    The last two are the seconds until it expires, and until its deadline.
    """
    claim = Claim(*row[: _MOMENTS.start], *map(read_moment, row[_MOMENTS]), *row[_MOMENTS.stop :])
    if claim.expires_at is claim.deadline_at is None:
        return claim
    now = time.perf_counter()
    expires_at = None if claim.expires_at is None else now + claim.expires_at
    deadline_at = None if claim.deadline_at is None else now + claim.deadline_at
    return msgspec.structs.replace(claim, expires_at=expires_at, deadline_at=deadline_at)


def _read_batch(
    token: int,
    ids: bytes,
    task_ids: bytes,
    queues: str | None,
    limits: bytes,
    priorities: bytes,
    due: bytes,
    created: bytes | None,
    payloads: str,
    metas: str | None,
    partitions: bytes | None = None,
) -> list[Claim]:
    """Read the new jobs of a batch: one array for each column in which they differ."""
    moments, numbers = sent_numbers(due, "q"), sent_numbers(ids, "q")
    names = [None] * len(numbers) if queues is None else _read_queues(queues)
    limited = [None] * len(numbers) if partitions is None else sent_numbers(partitions, "q")
    more = [None] * len(numbers) if metas is None else [meta or None for meta in metas.split("\x1e")]
    # fmt: off
    return [
        Claim(
            id, task_id, queue, token, 0, max_attempts, 0, priority, 0,
            due, created, created, None, None, payload, meta, None, partition=partition, is_packed=True,
        )
        for id, task_id, queue, max_attempts, priority, due, created, payload, meta, partition in zip(
            numbers, sent_numbers(task_ids, "i"), names, sent_numbers(limits, "h"), sent_numbers(priorities, "h"),
            moments, sent_numbers(created, "q") if created else moments, payloads.split("\x1e"),
            more, limited, strict=True,
        )
    ]
    # fmt: on


async def next_due_s(line: ReconnectingConnection, since: float, after: Place = START) -> float | None:
    """Return the time until the next job is due, of those that become due after the last fetch.

    The statement counts back twice the time since the fetch was sent. That is too little if the statement takes longer
    to the server than the fetch and its answer took: then it is sent again.

    `since` is the time at which the last fetch was sent, by the event loop's clock; the fetch began after this
    position, and earlier jobs without a partition do not count. Returns seconds, 0 or less if a job is due already;
    None if no job waits for its time.
    """
    now = asyncio.get_running_loop().time
    while True:
        asked_at = now()
        elapsed_s = asked_at - since
        rows = await line.fetch("next_due", 2 * elapsed_s, None, after.priority, after.run_at, after.id, None, None)
        if now() - asked_at <= elapsed_s:
            return rows[0]["delay_s"]


async def poll(line: ReconnectingConnection, worker_id: int, slot_token: int) -> tuple[float | None, bool]:
    """Ask in one statement for all that an idle worker needs; the token of a closed hand-off slot is 0.

    Returns the time until the next job is due, as `next_due_s`, but of all jobs; and whether the slot was filled.
    """
    (row,) = await line.fetch("next_due", None, None, None, None, None, worker_id, slot_token)
    return row["delay_s"], row["is_taken"]

"""Recurring items as workers see them: their state, and their slots. Each slot becomes a job once."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from asyncq.domain.codec import Envelopes
from asyncq.domain.cron.item import extra_of
from asyncq.domain.cron.slot import Known, Slot, job_of
from asyncq.domain.errors import CodecFailed, InvalidJob
from asyncq.domain.job import Added
from asyncq.store.database import ReconnectingConnection
from asyncq.store.sizes import first_piece


class AddedSlot(msgspec.Struct, frozen=True):
    """A slot that this call was the first to add; the job need not be a new one."""

    slot: Slot
    added: Added


class Definition(msgspec.Struct, frozen=True):
    """A stored item as it was read."""

    identifier: str
    revision: int
    text: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about an item, for `asyncq cron ls`.

    Attributes:
        revision: The revision of a stored item's definition when it was read.
        problem: Why it cannot be scheduled.
        job: Its job with the defaults of its task, as JSON.
    """

    identifier: str
    revision: int | None = None
    next_run: datetime | None = None
    problem: str | None = None
    job: str | None = None


async def look(line: ReconnectingConnection) -> tuple[datetime, int]:
    """Read the server's time, unless a test has moved it, and a number that changes with the stored items.

    It also changes when any item begins again.
    """
    row = (await line.fetch("clock"))[0]
    return row["now"], row["items"]


async def declare(line: ReconnectingConnection, worker_id: int, items: str) -> None:
    """Declare the items of a worker's own crontab: identifier -> definition, with its `job`, as JSON."""
    await line.fetch("declare_cron", worker_id, items)


async def stored_items(
    line: ReconnectingConnection, tasks: Collection[str], identifiers: Collection[str]
) -> list[Definition]:
    """Read the stored items of these tasks, or of these names, in the order of their identifiers."""
    rows = await line.fetch("stored_items", sorted(tasks), sorted(identifiers))
    return [Definition(row["identifier"], row["revision"], row["definition"]) for row in rows]


async def tell(line: ReconnectingConnection, items: Sequence[Told]) -> None:
    """Store a worker's reports about items; skips rows that another transaction locks."""
    while items:
        piece = first_piece(items, len(items), lambda one: len(one.job or ""))
        rows = ((one.identifier, one.revision, one.next_run, one.problem, one.job) for one in piece)
        await line.fetch("report_cron", *(list(column) for column in zip(*rows, strict=True)))
        items = items[len(piece) :]


async def register(
    line: ReconnectingConnection, identifiers: Collection[str], stored: Collection[str] = ()
) -> dict[str, Known]:
    """Make items of a worker's own crontab known, and return the states of these and of stored ones.

    A new item is known since now; stored items are known unless they were removed.

    If cancelled, they may be known or not; a repetition changes nothing.
    """
    rows = await line.fetch("register_crontabs", sorted(identifiers), sorted(stored))
    return {row["identifier"]: Known(row["known_since"], row["last_execution"], row["not_before"]) for row in rows}


def first_slots(slots: Sequence[Slot], most: int) -> Sequence[Slot]:
    """Return the first slots for one transaction: at most `most`, with at most 16 MiB of payloads."""
    return first_piece(slots, most, lambda slot: len(job_of(slot).payload))


async def add_slots(
    line: ReconnectingConnection, slots: Sequence[Slot], envelopes: Envelopes | None = None
) -> tuple[list[AddedSlot], dict[str, str]]:
    """Add the jobs of slots that no worker has added yet, in one transaction; a repetition adds nothing twice.

    Returns the slots that this call added, and the errors of the items that failed, by identifier; these do not affect
    the others. Another worker had added those that are in neither.
    """
    added: list[AddedSlot] = []
    refused: dict[str, str] = {}
    sent: list[Slot] = []
    rows: list[tuple[Any, ...]] = []
    for slot in slots:
        # A later slot would hide the one that failed.
        if slot.item.identifier not in refused:
            try:
                rows.append(_row(slot, envelopes))
                sent.append(slot)
            except (CodecFailed, InvalidJob) as error:
                refused[slot.item.identifier] = str(error)
    if not rows:
        return added, refused
    for row in await line.fetch("add_slots", *map(list, zip(*rows, strict=True))):
        ordinal: int = row["ord"]  # from 1
        slot = sent[ordinal - 1]
        if row["code"] is None:
            added.append(AddedSlot(slot, Added(row["id"], row["outcome"])))
        else:
            refused[slot.item.identifier] = f"{row['said']} [{row['code']}]"
    return added, refused


def _row(slot: Slot, envelopes: Envelopes | None) -> tuple[Any, ...]:
    item, spec = slot.item, job_of(slot)
    payload = spec.payload if envelopes is None else envelopes.seal_payload(spec.task, spec.payload)
    return (item.identifier, slot.at, slot.revision, spec.task, payload, spec.queue, extra_of(item, spec))

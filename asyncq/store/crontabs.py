"""Recurring items in the database: what is known of them, and their slots, each of which becomes a job once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from asyncq.domain.cron.item import CronItem
from asyncq.domain.cron.slot import Known, Slot, job_of
from asyncq.domain.job import Added
from asyncq.store.database import Line

_json = msgspec.json.Encoder()


class AddedSlot(msgspec.Struct, frozen=True):
    """A slot that this call was the first to add.

    Attributes:
        slot: The slot.
        added: What the add came to; with a job key or a unique policy it need not be a new job.
    """

    slot: Slot
    added: Added


class RefusedItem(msgspec.Struct, frozen=True):
    """An item whose jobs the database refused; its slots stay unclaimed.

    Attributes:
        item: The item.
        sqlstate: The server's code.
        said: The server's sentence.
    """

    item: CronItem
    sqlstate: str
    said: str


class Slots(msgspec.Struct, frozen=True):
    """What the slots of a call came to. Those that are in neither list another worker had added before."""

    added: tuple[AddedSlot, ...]
    refused: tuple[RefusedItem, ...]


async def ask_clock(line: Line) -> datetime:
    """What the clock of the schema shows: the server's time, unless a test has moved it.

    Raises:
        StoreError: See `failures.calling`.
    """
    now: datetime = (await line.fetch("clock"))[0]["now"]
    return now


async def register(line: Line, identifiers: Collection[str]) -> dict[str, Known]:
    """Make items known.

    Args:
        line: A connection.
        identifiers: Their identifiers.

    Returns:
        What is known of each; of a new one, that it is known since now.

    Raises:
        StoreError: See `failures.calling`.

    If cancelled, they may be known or not; to repeat it changes nothing.
    """
    rows = await line.fetch("register_crontabs", sorted(identifiers))
    return {row["identifier"]: Known(row["known_since"], row["last_execution"]) for row in rows}


async def add_slots(line: Line, slots: Sequence[Slot]) -> Slots:
    """Add the jobs of slots that no worker has added yet, in one transaction.

    Args:
        line: A connection, not in a transaction.
        slots: The slots, in the order in which their jobs are to be added.

    Returns:
        Which were added by this call, and which items failed: those cost the others nothing.

    Raises:
        StoreError: See `failures.calling`. Whether something was committed may be unknown: to repeat it adds nothing
            twice.

    If cancelled, the same holds.
    """
    if not slots:
        return Slots((), ())
    columns = zip(*(_columns(slot) for slot in slots), strict=True)
    rows = await line.fetch("add_slots", *(list(column) for column in columns))
    added: list[AddedSlot] = []
    refused: list[RefusedItem] = []
    for row in rows:
        # It counts from 1.
        position: int = row["ord"]
        slot = slots[position - 1]
        if row["code"] is None:
            added.append(AddedSlot(slot, Added(row["id"], row["outcome"])))
        else:
            refused.append(RefusedItem(slot.item, row["code"], row["said"]))
    return Slots(tuple(added), tuple(refused))


def _columns(slot: Slot) -> tuple[Any, ...]:
    spec = job_of(slot)
    return (
        slot.item.identifier,
        slot.at,
        spec.task,
        spec.payload,
        spec.queue,
        spec.max_attempts,
        spec.job_key,
        spec.priority,
        _json.encode(dict.fromkeys(spec.flags, True)).decode() if spec.flags else None,
        spec.job_key_mode or "replace",
        slot.item.question(spec),
    )

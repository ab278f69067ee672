"""Closes the hand-off slot of an idle worker, and reads the message of an add that filled it."""

from datetime import UTC, datetime

import msgspec

from asyncq.domain.job import Claim
from asyncq.domain.moment import moment_of
from asyncq.store.database import ReconnectingConnection

_UNIX = moment_of(datetime(1970, 1, 1, tzinfo=UTC))


class HandoffMessage(msgspec.Struct, frozen=True, array_like=True):
    """A job as `fill_slot` and `fill_slot_awaited` send it. Without `clock_us` it counts as late."""

    token: int
    id: int
    task_id: int
    max_attempts: int
    priority: int
    moment_us: int
    payload: msgspec.Raw
    meta: str | None
    clock_us: int = 0
    extras: msgspec.Raw = msgspec.Raw()


_read = msgspec.json.Decoder(HandoffMessage).decode


def handed_over(text: str) -> tuple[Claim, float] | None:
    """Read a message about a job that was handed over; None if it cannot be decoded.

    Returns the claim, and the time at which it was made, by the server's real clock in seconds since 1970.
    """
    try:
        job = _read(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    moment = _UNIX + job.moment_us
    # fmt: off
    claim = Claim(
        job.id, job.task_id, None, job.token, 0, job.max_attempts, 0, job.priority, 0,
        moment, moment, moment, None, None, bytes(job.payload).decode(), job.meta, None,
        bytes(job.extras).decode() or None,
    )
    # fmt: on
    return claim, job.clock_us / 1_000_000


async def close_slot(line: ReconnectingConnection, worker_id: int) -> tuple[bool, int | None]:
    """Close the worker's hand-off slot.

    Returns whether the worker had a slot; False if it was declared dead. The second value is the token of the job that
    was claimed through the slot, received or not; None if no add filled it.

    If cancelled, the slot may be closed or not: callers shield this.
    """
    rows = await line.fetch("close_slot", worker_id)
    return bool(rows), rows[0]["token"] if rows else None

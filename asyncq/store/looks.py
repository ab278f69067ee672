"""Looks at jobs that wait for others, after these have ended."""

from typing import Literal

import msgspec

from asyncq.store.database import ReconnectingConnection

CLOSINGS = "closings"  # the text of the notification that there is something to look at


class Look(msgspec.Struct, frozen=True):
    """What a look has done: a job was released, cancelled, is blocked by another one, or is held by a transaction."""

    outcome: Literal["released", "cancelled", "blocked", "held"]
    waiter: int
    job_id: int | None


async def look(line: ReconnectingConnection, most: int) -> list[Look]:
    """Look at all waiters of jobs that have ended, `most` ends at a time. If cancelled, the next look does the rest."""
    return [Look(*row) for row in await line.fetch("look", most)]

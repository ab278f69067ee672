"""Looks at jobs that wait for others, after these have ended."""

from typing import Literal

import msgspec

from asyncq.store.database import ReconnectingConnection

CLOSINGS = "closings"  # the text of the notification that there is something to look at


class Look(msgspec.Struct, frozen=True):
    """What a look has done: a job was released, cancelled, is blocked by another one, or is held by a transaction.

    It was refused if the results that it takes are too large: it is discarded.
    """

    outcome: Literal["released", "cancelled", "blocked", "held", "refused"]
    waiter: int
    job_id: int | None


async def look(line: ReconnectingConnection, after_id: int, most: int) -> tuple[list[Look], int | None]:
    """Look at the waiters of jobs that have ended: of the first `most` ends after an id.

    Returns the outcomes, and the id after which the next call has to look; None if there is no more. If cancelled, the
    next look does the rest.
    """
    rows = await line.fetch("look", after_id, most)
    after = next((row["waiter"] for row in rows if row["outcome"] == "next"), None)
    return [Look(*row) for row in rows if row["outcome"] != "next"], after

"""Moves jobs into their partitions. If cancelled, the next call moves the rest."""

import msgspec

from asyncq.store.database import ReconnectingConnection


class Page(msgspec.Struct, frozen=True):
    """How many jobs had another partition, the last job of the page (None: it was the last page), and the horizon.

    All transactions before the horizon have ended. It is None if no task has jobs to move.
    """

    found: int
    last_id: int | None
    horizon: int | None


async def move_jobs(line: ReconnectingConnection, after_id: int, most: int) -> Page:
    """Move the jobs of a page: of the next `most` jobs after an id."""
    (row,) = await line.fetch("move_jobs", after_id, most)
    return Page(row["found"], row["last_id"], row["horizon"])


async def end_moves(line: ReconnectingConnection, horizon: int) -> None:
    """Say that a walk that began at this horizon has found no job to move."""
    await line.fetch("end_moves", horizon)

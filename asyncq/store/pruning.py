"""Removes what need not be kept any longer, a batch at a time; nobody waits for it, and it waits for nobody."""

from __future__ import annotations

import msgspec

from asyncq.store.database import ReconnectingConnection

FIRST_KEY_LOCK = -(2**63)


class Pruned(msgspec.Struct, frozen=True):
    """How many of each kind were removed."""

    discarded: int = 0
    ended: int = 0
    requests: int = 0


async def prune(line: ReconnectingConnection, discarded_retention_s: float | None, most: int) -> Pruned:
    """Remove jobs that were discarded long ago, ended jobs and requests whose time has passed.

    Args:
        line: A connection.
        discarded_retention_s: How long the failed ones are kept; None for ever.
        most: How many of each kind at most.

    Returns:
        How many were removed; if one is as many as `most`, more may be left.

    Raises:
        StoreError: See `failures.calling`.

    If cancelled, it is unknown whether they were removed; that does no harm.
    """
    rows = await line.fetch("prune", discarded_retention_s, most)
    return Pruned(*rows[0])


async def prune_key_locks(line: ReconnectingConnection, after: int, most: int) -> tuple[int, int | None]:
    """Remove key locks that were not used for a day, among the next few behind a key.

    Args:
        line: A connection.
        after: Where the walk stands; `FIRST_KEY_LOCK` to begin with.
        most: How many key locks to look at.

    Returns:
        How many were removed, and where the walk goes on; None at its end.

    Raises:
        StoreError: See `failures.calling`.

    If cancelled, it is unknown whether they were removed; that does no harm.
    """
    rows = await line.fetch("prune_key_locks", after, most)
    key_locks: int = rows[0]["key_locks"]
    last: int | None = rows[0]["last_key"]
    return key_locks, last

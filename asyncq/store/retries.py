"""Which adds are made again after a failure, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat

from asyncq.domain.errors import AsyncqError, StoreUnavailable
from asyncq.store.failures import is_conflict, is_unknown

# How long to wait before each further try of an add that may be made again; a server restarts within a second or two.
PAUSES_S = (0.1, 0.5, 1.4)


def pauses() -> Iterator[float]:
    """How long to wait before each further try while the database cannot be used: no end of them."""
    return chain(PAUSES_S, repeat(PAUSES_S[-1]))


class Retries:
    """The further tries of one call that adds, of which the first has failed.

    Args:
        until: Until when it is made again while it certainly changed nothing, by the loop's clock.
        has_keys: Whether each job has an idempotency key: without one a second add could add it twice.
    """

    def __init__(self, until: float, *, has_keys: bool) -> None:
        self._until = until
        self._has_keys = has_keys
        self._tries = 0
        self._lost: AsyncqError | None = None  # the first error after which nobody knows whether the jobs were added

    async def pause(self, error: AsyncqError) -> None:
        """Wait for the time of the next try.

        Args:
            error: What the last one met.

        Raises:
            AsyncqError: There is none: the error, or an earlier one that leaves open whether the jobs were added.

        If cancelled, nothing was done.
        """
        self._tries += 1
        if self._lost is None and is_unknown(error):
            self._lost = error
        left_s = self._until - asyncio.get_running_loop().time()
        is_lost = self._lost is not None
        pause_s = pause_before_another_try(error, self._tries, left_s, has_keys=self._has_keys, is_lost=is_lost)
        if pause_s is None:
            # An add that may have happened is never told of as one that has not.
            if self._lost is not None and self._lost is not error:
                raise self._lost from error
            raise error
        await asyncio.sleep(pause_s)


def pause_before_another_try(
    error: AsyncqError, tries: int, left_s: float, *, has_keys: bool, is_lost: bool
) -> float | None:
    """Whether a failed add is made again, and after how long.

        what the last try met                 is made again
        nobody knows whether it was done      if each job has a key: after the first three tries, and during `retry_for`
        a conflict: nothing was done          after the first three tries, and during `retry_for`
        no database: nothing was done         during `retry_for`; and as above, if nobody knows of an earlier try
        anything else                         never

    Args:
        error: What the last try met.
        tries: How many there were.
        left_s: How much of `retry_for` is left.
        has_keys: Whether each job has an idempotency key: without one a second add could add it twice.
        is_lost: Whether nobody knows of this try or an earlier one whether it was done.

    Returns:
        The pause; None if this was the last try.
    """
    may_repeat = has_keys if is_unknown(error) else is_conflict(error) or isinstance(error, StoreUnavailable)
    if not may_repeat:
        return None
    pause_s = PAUSES_S[min(tries, len(PAUSES_S)) - 1]
    if (is_lost or is_conflict(error)) and tries <= len(PAUSES_S):
        return pause_s
    return min(pause_s, left_s) if left_s > 0 else None

"""Repeats calls of a client after a failure."""

import asyncio

from asyncq.domain.errors import AsyncqError, StoreUnavailable
from asyncq.store.failures import is_conflict, is_unknown

# The pause before each repetition; a server restarts within a second or two.
PAUSES_S = (0.1, 0.5, 1.4)


class Retries:
    """Repeats one call after its first try has failed, until the end of `retry_for` by the loop's clock."""

    def __init__(self, until: float, *, has_keys: bool) -> None:
        self._until = until
        self._has_keys = has_keys
        self._tries = 0
        self._lost: AsyncqError | None = None  # the first error after which the outcome is unknown

    async def pause(self, error: AsyncqError) -> None:
        """Wait for the time of the next try, or raise the error, or an earlier one with an unknown outcome."""
        self._tries += 1
        if self._lost is None and is_unknown(error):
            self._lost = error
        left_s = self._until - asyncio.get_running_loop().time()
        is_lost = self._lost is not None
        pause_s = pause_before_another_try(error, self._tries, left_s, has_keys=self._has_keys, is_lost=is_lost)
        if pause_s is None:
            # If an earlier try may have added the jobs, the error must say so.
            if self._lost is not None and self._lost is not error:
                raise self._lost from error
            raise error
        await asyncio.sleep(pause_s)


def pause_before_another_try(
    error: AsyncqError, tries: int, left_s: float, *, has_keys: bool, is_lost: bool
) -> float | None:
    """Return the pause before a failed call is repeated; None if it is not.

        error of the last try                 repeated
        the outcome is unknown                if each job has a key: after the first three tries, and during `retry_for`
        a conflict: nothing was added         after the first three tries, and during `retry_for`
        no database: nothing was added        during `retry_for`; as above, if the outcome of an earlier try is unknown
        any other                             never

    `is_lost` says whether the outcome of this try or an earlier one is unknown.
    """
    may_repeat = has_keys if is_unknown(error) else is_conflict(error) or isinstance(error, StoreUnavailable)
    if not may_repeat:
        return None
    pause_s = PAUSES_S[min(tries, len(PAUSES_S)) - 1]
    if (is_lost or is_conflict(error)) and tries <= len(PAUSES_S):
        return pause_s
    return min(pause_s, left_s) if left_s > 0 else None

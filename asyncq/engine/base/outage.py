"""Counts the failures of one part of a worker in a row, so that an outage takes two lines of the log."""

import time
from collections.abc import Callable

from asyncq.domain.events import Event, PartRecovered


class Outage:
    """The current outage of one part, if there is one; the event at its end names the part."""

    def __init__(self, part: str, emit: Callable[[Event], object]) -> None:
        self._part = part
        self._emit = emit
        self._failures = 0
        self._since = 0.0

    def failed(self) -> int:
        """Count a failure; returns the number of failures in a row, including this one."""
        if not self._failures:
            self._since = time.monotonic()
        self._failures += 1
        return self._failures

    def over(self) -> None:
        """End the outage, if there is one, because the part works again."""
        if self._failures:
            failures, self._failures = self._failures, 0
            self._emit(PartRecovered(part=self._part, failures=failures, lasted_s=time.monotonic() - self._since))

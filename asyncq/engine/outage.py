"""Failures of one part of a worker in a row: counted, so that an outage takes two lines of the log and not hundreds."""

from __future__ import annotations

import time
from collections.abc import Callable

from asyncq.domain.events import Event, PartRecovered


class Outage:
    """The current outage of one part, if there is one.

    Args:
        part: The part, for the event at its end.
        emit: Takes the event.
    """

    __slots__ = ("_emit", "_failures", "_part", "_since")

    def __init__(self, part: str, emit: Callable[[Event], object]) -> None:
        self._part = part
        self._emit = emit
        self._failures = 0
        self._since = 0.0

    def failed(self) -> int:
        """Count a failure; returns how many there were in a row, this one included."""
        if not self._failures:
            self._since = time.monotonic()
        self._failures += 1
        return self._failures

    def over(self) -> None:
        """The part works: the outage ends, if there was one."""
        if self._failures:
            failures, self._failures = self._failures, 0
            self._emit(PartRecovered(part=self._part, failures=failures, lasted_s=time.monotonic() - self._since))

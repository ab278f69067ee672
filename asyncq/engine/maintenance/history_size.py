"""Reports the size of the history once a day: without that, people first notice it by a full disk."""

import random

from asyncq.domain.events import HistorySize
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.store.database import ReconnectingConnection
from asyncq.store.pruning import history_size

FIRST_WITHIN_S = 3600.0  # not in all workers of a fleet at once
EVERY_S = 86_400.0
MOST_COUNTED = 1_000_000


class HistorySizes:
    """The reports of one worker."""

    def __init__(self, line: ReconnectingConnection, observers: Observers) -> None:
        self._line = line
        self._observers = observers
        self._due_at: float | None = None

    async def report(self, now: float) -> None:
        """Report the size if it is time and a job is kept. If cancelled, it waits for the running statement."""
        if self._due_at is None:
            self._due_at = now + random.uniform(0.0, FIRST_WITHIN_S)
        if now < self._due_at:
            return
        self._due_at = now + EVERY_S * random.uniform(0.8, 1.2)
        async with shielded(self._line):
            size = await history_size(self._line, MOST_COUNTED)
        if size.oldest_s is not None:
            self._observers.emit(HistorySize(jobs=size.jobs, bytes=size.bytes, oldest_s=size.oldest_s))

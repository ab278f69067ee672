"""Tells the observers of one worker what happens; none can hurt another, or a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from asyncq.domain.events import Event, Observer, ObserverFailed, observer


class Observers:
    """The observers of one worker, told in turn.

    Args:
        observers: They; a plain function is told everything.
    """

    def __init__(self, observers: Iterable[Observer | Callable[[Any], None]]) -> None:
        self._observers = [item if isinstance(item, Observer) else observer()(item) for item in observers]
        self._by_type: dict[type[Event], list[Observer]] = {}

    def wanted(self, kind: type[Event]) -> bool:
        """Whether anybody wants events of a type, so that the others need not be built."""
        # Asked for each job, twice.
        told = self._by_type.get(kind)
        return bool(self._who(kind) if told is None else told)

    def emit(self, event: Event) -> None:
        """Tell who wants it; what an observer raises becomes an ObserverFailed event."""
        for told in self._who(type(event)):
            try:
                told(event)
            except Exception as error:  # noqa: BLE001 - an observer's error is reported, never raised
                self._failed(told, event, error)

    def _who(self, kind: type[Event]) -> list[Observer]:
        try:
            return self._by_type[kind]
        except KeyError:
            told = [item for item in self._observers if issubclass(kind, tuple(item.wants))]
            return self._by_type.setdefault(kind, told)

    def _failed(self, told: Observer, event: Event, error: Exception) -> None:
        if isinstance(event, ObserverFailed):
            # Even the report of a failure failed: the last resort, so that it is not silent.
            logging.getLogger("asyncq").error("an observer failed on ObserverFailed", exc_info=error)
        else:
            self.emit(ObserverFailed(observer=repr(told), event=type(event).__name__, error=error))

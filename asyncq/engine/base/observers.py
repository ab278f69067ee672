"""Calls the observers of one worker; an error of one affects no other, and no job."""

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.events import Event, Observer, ObserverFailed, as_observer, carrying
from asyncq.domain.outcome import error_line
from asyncq.engine.base.records import LOGGER, write
from asyncq.engine.base.user_code import USERS_ERRORS


class Observers:
    """The observers of one worker; ConfigurationError if one cannot receive events."""

    def __init__(self, observers: Iterable[Observer | Callable[[Any], None]]) -> None:
        self._observers = [as_observer(item) for item in observers]
        # Called twice for each job.
        self._wanting = cache(self._find)
        self.wanted = cache(self._is_wanted)

    def emit(self, event: Event, exception: BaseException | None = None) -> None:
        """Call the observers of an event; an error becomes an ObserverFailed event for the others.

        The exception that the event reports is released when all observers were called.
        """
        observers = self._wanting(type(event))
        if exception is None:  # Most events have none.
            self._call(observers, event)
            return
        with carrying(event, exception):
            self._call(observers, event)

    def _call(self, observers: Iterable[Observer], event: Event) -> None:
        for observer in observers:
            try:
                observer(event)
            except USERS_ERRORS as error:
                self._failed(observer, event, error)

    def _is_wanted(self, kind: type[Event]) -> bool:
        return bool(self._wanting(kind))

    def _find(self, kind: type[Event]) -> list[Observer]:
        return [item for item in self._observers if issubclass(kind, tuple(item.wants))]

    def _failed(self, observer: Observer, event: Event, error: BaseException) -> None:
        # An observer that always fails would also fail on the report of its own failure.
        others = [item for item in self._wanting(ObserverFailed) if item is not observer]
        if others and not isinstance(event, ObserverFailed):
            failed = ObserverFailed(observer=repr(observer), event=type(event).__name__, error=error_line(error))
            with carrying(failed, error):
                self._call(others, failed)
        else:
            # The report of a failure failed too, or no observer wants it: write it, so that it is not lost.
            name = type(event).__name__
            write(LOGGER, logging.ERROR, "an observer failed on %s", (name,), {"asyncq_event": name}, error)


def listed(observers: Any) -> list[Any]:
    """Check that the argument `observers` of a worker is an iterable; each observer is checked later."""
    if isinstance(observers, str | bytes) or not isinstance(observers, Iterable):
        raise ConfigurationError(f"observers must be a list of observers, got {observers!r}; write observers=[...]")
    return [*observers]

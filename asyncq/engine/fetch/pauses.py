"""Handles notifications of pauses and of their ends, in a worker."""

from collections.abc import Callable
from typing import Any

from asyncq.domain.events import Paused, Resumed
from asyncq.domain.pause import read_message
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.fetch.schedule import Schedule

REASON = "something was paused"


class Pauses:
    """Reacts to pauses in one worker. It stores none: each fetch reads in the database what is paused.

    `paused` is called after the notification of a pause.
    """

    def __init__(self, inbox: Inbox, schedule: Schedule, observers: Observers, *, paused: Callable[[], None]) -> None:
        self._inbox = inbox
        self._schedule = schedule
        self._observers = observers
        self._paused = paused

    def heard(self, text: str) -> bool:
        """Handle a notification; returns whether it is one of a pause, or of the end of one.

        After a pause all claims that have not started are returned, also those of other tasks: the next fetch takes
        these again. Any role can send such a message; without a stored pause it has no other effect.
        """
        message = read_message(text)
        if message is None:
            return False
        about: dict[str, Any] = {"what": message.what, "name": message.name, "key": message.key, "by": message.by}
        if message.act == "paused":
            self._observers.emit(Paused(**about, reason=message.reason))
            self._inbox.return_all(REASON)
            self._paused()
        else:
            self._observers.emit(Resumed(**about, reason=message.reason))
        self._schedule.wake()
        return True

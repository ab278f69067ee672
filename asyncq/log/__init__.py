"""The log: each event as a sentence."""

from asyncq.log.hint import hint_once
from asyncq.log.observer import LogObserver

__all__ = ["LogObserver", "hint_once"]

"""The log: each event as a sentence."""

from asyncq.log.observer import LogObserver

__all__ = ["LogObserver"]

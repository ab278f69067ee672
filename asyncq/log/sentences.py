"""The parts of a table of sentences."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from asyncq.domain.events import Event

EventT = TypeVar("EventT", bound=Event)
# A template, then its values. Tools group records by the template, so it contains no data of the event.
Sentence = tuple[Any, ...]
Entry = tuple[type[Event], tuple[int, Callable[[Any], Sentence]]]


def said(kind: type[EventT], level: int, sentence: Callable[[EventT], Sentence]) -> Entry:
    """The level and the sentence of a type of events."""
    return kind, (level, sentence)


def ids(ids: Collection[int]) -> str:
    """Ids in a sentence."""
    return names([str(number) for number in ids])


def names(names: Collection[str], most: int = 10) -> str:
    """Names in a sentence; only the first ones if they are many."""
    shown = ", ".join(list(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def first_line(error: str) -> str:
    """An error without its traceback."""
    return error.partition("\n")[0]

"""What a table of sentences is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from asyncq.domain.events import Event

EventT = TypeVar("EventT", bound=Event)
# A template, then the values of its marks. Tools group records by the template: it holds nothing of the event.
Sentence = tuple[Any, ...]
Entry = tuple[type[Event], tuple[int, Callable[[Any], Sentence]]]


def said(kind: type[EventT], level: int, sentence: Callable[[EventT], Sentence]) -> Entry:
    """The level and the sentence of a type of events."""
    return kind, (level, sentence)


def ids(ids: Collection[int]) -> str:
    """Ids in a sentence."""
    return names([str(number) for number in ids])


def names(names: Collection[str], most: int = 10) -> str:
    """Names in a sentence, of many the first ones."""
    shown = ", ".join(list(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def first_line(error: str) -> str:
    """An error without its traceback."""
    return error.partition("\n")[0]

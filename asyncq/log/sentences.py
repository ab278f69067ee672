"""The parts of a table of sentences."""

import logging
import re
from collections.abc import Callable, Collection
from functools import partial
from operator import attrgetter
from typing import Any, cast

from asyncq.domain.events import Event

# The level; then a template and its values, of an event. Tools group records by the template.
Sentence = tuple[int, Callable[[Any], tuple[Any, ...]]]
Table = dict[type[Event], Sentence]

_NAME = re.compile(r"%\(([\w.]+)\)")


def sentence(level: int, words: str, /, **values: Callable[[Any], object]) -> Sentence:
    """The sentence of a type of events; `%(name)s` is one of `values`, or else a field of the event."""
    template = _NAME.sub("%", words)
    getters = [values[name] if name in values else attrgetter(name) for name in _NAME.findall(words)]
    return level, lambda event: (template, *(_shown(get(event)) for get in getters))


debug = partial(sentence, logging.DEBUG)
info = partial(sentence, logging.INFO)
warning = partial(sentence, logging.WARNING)
error = partial(sentence, logging.ERROR)


def listed(items: Collection[object], most: int = 10) -> str:
    """Names or ids in a sentence; only the first ones if they are many."""
    shown = ", ".join(map(str, list(items)[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def _shown(value: object) -> object:
    return listed(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def first_line(event: Any) -> str:
    """The error of an event, without its traceback."""
    return event.error.partition("\n")[0]

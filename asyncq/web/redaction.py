"""Takes secrets out of payloads, results and meta before they leave the server."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

REDACTED = ("password", "passwd", "secret", "token", "authorization", "api_key", "apikey", "cookie", "credentials")
MARK = "(redacted)"

Redact = Iterable[str] | Callable[[Any], Any]


class Redaction:
    """What the dashboard does not show.

    Args:
        redact: The names of members whose values are replaced at any depth, in any case; or a function that takes a
            decoded value, and returns what may be shown of it.
        hide: Whether nothing of payloads, results and meta is shown.
    """

    def __init__(self, redact: Redact, *, hide: bool) -> None:
        self.hides = hide
        self._function = redact if callable(redact) else None
        self.names: frozenset[str] = frozenset() if callable(redact) else frozenset(map(str.casefold, redact))

    def text(self, text: str | None) -> str | None:
        """JSON text as it may be shown; a text without secrets keeps every digit of its numbers."""
        if text is None or self.hides:
            return None
        if self._function is None and not any(name in text.casefold() for name in self.names):
            return text
        return msgspec.json.encode(self.value(msgspec.json.decode(text))).decode()

    def value(self, value: Any) -> Any:
        """A decoded value as it may be shown."""
        if self.hides:
            return None
        return self._without(value) if self._function is None else self._function(value)

    def names_in(self, value: Any) -> set[str]:
        """The redacted names that a filter mentions: to search for their values would show them."""
        found: set[str] = set()
        for name, member in _members(value):
            if name.casefold() in self.names:
                found.add(name)
            found |= self.names_in(member)
        return found

    def _without(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: MARK if name.casefold() in self.names else self._without(member)
                for name, member in _members(value)
            }
        return [self._without(member) for _, member in _members(value)] if isinstance(value, list) else value


def _members(value: Any) -> list[tuple[str, Any]]:
    """The members of an object by their names, those of a list without names; none of any other value."""
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).items())
    return [("", member) for member in cast(list[Any], value)] if isinstance(value, list) else []

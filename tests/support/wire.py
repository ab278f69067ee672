"""PostgreSQL's protocol, as far as a proxy has to understand it: where a message ends, and which statement it runs.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

CANCEL = 80877102
ENCRYPTION = (80877103, 80877104)  # SSLRequest, GSSENCRequest

_COMMIT = re.compile(r"\s*(?:commit|end)\b(?!\s+prepared)", re.IGNORECASE)


class Message(NamedTuple):
    """One message.

    Attributes:
        kind: Its first byte; empty for the first messages of a connection.
        body: The bytes after the length.
        raw: The whole message, as it was sent.
    """

    kind: bytes
    body: bytes
    raw: bytes


class Messages:
    """Cuts what one side sends into messages.

    Args:
        starts: Whether it begins with messages that have no kind: a client does, a server does not.
    """

    def __init__(self, *, starts: bool) -> None:
        self._starts = starts
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that a piece of data completes."""
        self._rest += data
        while True:
            before = 0 if self._starts else 1
            if len(self._rest) < before + 4:
                return
            end = before + struct.unpack_from("!I", self._rest, before)[0]
            if len(self._rest) < end:
                return
            raw, self._rest = self._rest[:end], self._rest[end:]
            message = Message(raw[:before], raw[before + 4 :], raw)
            if self._starts and code(message) not in ENCRYPTION:
                self._starts = False
            yield message


class Statements:
    """Knows which statement a message of a client runs, also when it was prepared long before."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, str] = {}
        self._bound: dict[bytes, str] = {}

    def of(self, message: Message) -> str | None:
        """The text of the statement that this message runs; None if it runs none."""
        parts = message.body.split(b"\0", 2)
        if message.kind == b"Q":
            return parts[0].decode()
        if message.kind == b"P":
            self._prepared[parts[0]] = parts[1].decode()
        elif message.kind == b"B":
            self._bound[parts[0]] = self._prepared.get(parts[1], "")
        elif message.kind == b"E":
            return self._bound.get(parts[0], "")
        return None


def code(message: Message) -> int:
    """The request in a message of a connection's beginning."""
    return struct.unpack_from("!I", message.body)[0]


def is_commit(statement: str) -> bool:
    """Whether a statement commits a transaction."""
    return _COMMIT.match(statement) is not None

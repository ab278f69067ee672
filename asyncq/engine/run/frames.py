"""The messages between a worker and a process that runs handlers: JSON, each after its length in four bytes."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from asyncq.domain.around import Carried

LENGTH_BYTES = 4
LARGEST_RESULT = 16 * 1024 * 1024
SOCKET_CLOSED = 76  # the exit code of a process that cannot send its answer


class Setup(msgspec.Struct, frozen=True, tag=True):
    """The first message to a process: the levels of the worker's loggers, by name; that of the root is ""."""

    levels: dict[str, int]


class Order(msgspec.Struct, frozen=True, tag=True):
    """A call of a handler, which is found in a module by a path of names, within what is carried to it."""

    module: str
    path: str
    task: str
    payload: str
    carried: list[Carried] = []


class Began(msgspec.Struct, frozen=True, tag=True):
    """The process has imported the handler of the order, and calls it now."""


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The handler returned. Its result is JSON text, or None with the reason for which there is no such text."""

    result: str | None = None
    type_name: str = "NoneType"
    refused: str | None = None


class Raised(msgspec.Struct, frozen=True, tag=True):
    """The handler raised, or could not be called. `error` is the text for `last_error`, `message` its first part.

    A verdict of the handler has its name, its reason and its delay; `partition` is that of a RetryAfter.
    """

    error: str
    type_name: str
    message: str
    verdict: Literal["Discard", "RetryAfter", "Snooze"] | None = None
    delay_s: float = 0.0
    partition: bool = False


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A record of a logger; `fields` has the attributes of `extra=`."""

    name: str
    level: int
    message: str
    path: str
    line: int
    function: str | None
    created: float
    fields: dict[str, Any]


ToProcess = Setup | Order
Answer = Returned | Raised

read_order = msgspec.json.Decoder(ToProcess).decode
Reported = Began | Answer | Logged
read_report = msgspec.json.Decoder(Reported).decode


def framed(message: ToProcess | Reported) -> bytes:
    """A message with its length before it."""
    text = msgspec.json.encode(message)
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


class Frames:
    """Splits the bytes of a stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete with these bytes."""
        self._buffer += received
        while len(self._buffer) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[LENGTH_BYTES:end])
            del self._buffer[:end]
            yield message

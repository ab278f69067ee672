"""A standby as the server sees it: it streams by the replication protocol, and reports its oldest snapshot."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit


class Replica:
    """One connection in replication mode. Every message is a byte for its kind, the length, the rest.

    Args:
        dsn: A server of ours, reached by its socket, that trusts everybody.
        name: Its application_name.
    """

    def __init__(self, dsn: str, name: str) -> None:
        (folder,) = parse_qs(urlsplit(dsn).query)["host"]
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(f"{folder}/.s.PGSQL.5432")
        words = {"user": "postgres", "replication": "true", "application_name": name}
        text = b"".join(f"{key}\0{value}\0".encode() for key, value in words.items()) + b"\0"
        self._socket.sendall(struct.pack("!ii", len(text) + 8, 196608) + text)
        self._until(b"Z")

    def ask(self, command: str) -> None:
        """A command that is answered at once."""
        self._send(b"Q", command.encode() + b"\0")
        self._until(b"Z")

    def stream(self, slot: str = "") -> None:
        """Begin to stream, from any place."""
        self._send(b"Q", f"START_REPLICATION {slot and f'SLOT {slot}'} PHYSICAL 0/1000000\0".encode())
        self._until(b"W")

    def feed_back(self, xmin: int) -> None:
        """Report the oldest transaction that a query of this standby still sees."""
        epoch, no_catalog = 0, 0
        self._send(b"d", b"h" + struct.pack("!qIIII", 0, xmin, epoch, no_catalog, epoch))

    def close(self) -> None:
        """End, as a standby that is away."""
        self._socket.close()

    def _send(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def _until(self, wanted: bytes) -> None:
        while True:
            kind, length = struct.unpack("!ci", self._read(5))
            body = self._read(length - 4)
            if kind == b"E":
                raise AssertionError(body.decode(errors="replace"))
            if kind == wanted:
                return

    def _read(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            read += self._socket.recv(count - len(read))
        return read


@contextmanager
def replica(dsn: str, name: str) -> Iterator[Replica]:
    """A standby for as long as the block lasts."""
    made = Replica(dsn, name)
    try:
        yield made
    finally:
        made.close()

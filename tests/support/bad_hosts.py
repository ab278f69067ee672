"""Hosts that cannot be used, and DSNs that list them before or behind a server that works."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

# The reaction of a host after it has accepted: none, close, reset, or an answer in another protocol.
Manner = Literal["mute", "closes", "resets", "speaks HTTP"]


class BadHost:
    """A host that accepts connections and cannot be used.

    Attributes:
        port: Its port on 127.0.0.1.
        accepted: How many connections it accepted.
    """

    def __init__(self, manner: Manner) -> None:
        self._manner: Manner = manner
        self.port = 0
        self.accepted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            await reader.read(8)
            if self._manner == "mute":
                await reader.read()
            elif self._manner == "speaks HTTP":
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                await writer.drain()
            elif self._manner == "resets":
                writer.transport.abort()
        except ConnectionError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def bad_host(manner: Manner = "mute") -> AsyncGenerator[BadHost]:
    """A host that cannot be used, while the block lasts."""
    host = BadHost(manner)
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()


def with_hosts(dsn: str, *, before: list[int], asked: str = "target_session_attrs=read-write") -> str:
    """A DSN that lists ports of 127.0.0.1 before the host of another DSN.

    Args:
        dsn: The other DSN, with one host.
        before: The ports.
        asked: More parameters.
    """
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    host = query["host"][0] if "host" in query else parts.hostname or "localhost"
    port = query["port"][0] if "port" in query else str(parts.port or 5432)
    hosts = quote(",".join(["127.0.0.1"] * len(before) + [host]), safe=",")
    ports = ",".join([*map(str, before), port])
    login = quote(parts.username or "postgres") + (f":{parts.password}" if parts.password else "")
    return f"postgresql://{login}@{parts.path}?host={hosts}&port={ports}&{asked}"

"""Delays the data between workers and the server: `python -m benchmarks.scale.relay SOCKET TRIP_MS`.

An event loop rounds delays up to milliseconds, so the real delay has to be measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from benchmarks.scale.place import Place
from benchmarks.suite.places import ROOT

CHUNK = 1 << 20


async def serve(socket: str, trip_s: float) -> None:
    """Forward the data, each direction delayed by half of the round trip, until the input ends."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(socket, limit=CHUNK)
        async with asyncio.TaskGroup() as group:
            group.create_task(carry(reader, back, trip_s / 2))
            group.create_task(carry(there, writer, trip_s / 2))

    async with await asyncio.start_server(meet, "127.0.0.1", 0, limit=CHUNK) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Forward one direction. Data that follows closely is not delayed by earlier data."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):  # a worker that has ended
        while data := await reader.read(CHUNK):
            loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


@asynccontextmanager
async def far_away(place: Place, trip_ms: float) -> AsyncGenerator[Way]:
    """A more distant way to a server, by a relay process."""
    asked = urlsplit(place.dsn("any"))
    where = {name: value for name, (value, *_) in parse_qs(asked.query).items()}
    socket = f"{where['host']}/.s.PGSQL.{where['port']}"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.scale.relay", socket, str(trip_ms), stdin=pipe, stdout=pipe, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Way(int(await process.stdout.readline()))
    finally:
        process.kill()
        await process.wait()


class Way:
    """The longer way.

    Args:
        port: Where it begins.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def to(self, dsn: str) -> str:
        """The same database, by this way."""
        return f"postgresql://postgres@127.0.0.1:{self._port}{urlsplit(dsn).path}?sslmode=disable"


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]) / 1000))

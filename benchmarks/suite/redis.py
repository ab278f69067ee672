"""Redis servers for single runs, as shipped and with every write on disk; and a minimal client."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

from benchmarks.peers.peer import Peer
from benchmarks.suite.child import play
from benchmarks.suite.places import CACHE, Unfit

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
# The shell ends the server when its own stdin does: with us, however we end.
KEPT = '"$@" & server=$!; read -r _; kill $server; wait $server'


class Redis:
    """A server.

    Args:
        socket: Its unix socket.
        version: Its version.
    """

    def __init__(self, socket: Path, version: str) -> None:
        self._socket = socket
        self.version = version

    @asynccontextmanager
    async def filled(self, peer: Peer, variant: str, jobs: int) -> AsyncGenerator[Stream]:
        """The server, empty except for so many jobs."""
        dsn = f"unix://{self._socket}"
        reader, writer = await asyncio.open_unix_connection(self._socket)
        stream = Stream(dsn, reader, writer, peer)
        try:
            await stream.ask("FLUSHALL")
            await play(peer, "fill", dsn, **peer.variants[variant], jobs=jobs)
            yield stream
        finally:
            writer.close()


class Stream:
    """The jobs of one run.

    Args:
        dsn: The way to the server.
        reader: Of a connection to it.
        writer: Of the same.
        peer: Whose jobs they are.
    """

    def __init__(self, dsn: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer) -> None:
        self.dsn = dsn
        self._reader, self._writer = reader, writer
        assert not isinstance(peer.left, str)
        self._left = peer.left

    async def ask(self, command: str) -> Any:
        """Send a command of plain words, and return the answer."""
        self._writer.write(command.encode() + b"\r\n")
        return await self._answer()

    async def _answer(self) -> Any:
        line = (await self._reader.readline()).decode().rstrip()
        kind, rest = line[:1], line[1:]
        match kind:
            case "+":
                return rest
            case ":":
                return int(rest)
            case "$":
                return None if rest == "-1" else (await self._reader.readexactly(int(rest) + 2))[:-2].decode()
            case "*":
                return None if rest == "-1" else [await self._answer() for _ in range(int(rest))]
            case _:
                raise Unfit(f"redis said {line!r}")

    async def is_empty(self, among: str = "") -> bool:
        """Whether every job is settled."""
        return not await self.count()

    async def wal_bytes(self) -> int:
        """None: there is no WAL."""
        return 0

    async def count(self, among: str = "") -> int:
        """Count the unsettled jobs."""
        left = 0
        for command in self._left:
            answer = await self.ask(command)
            left += cast("list[int]", answer)[0] if isinstance(answer, list) else answer
        return left


def program() -> Path | None:
    """Where redis-server is: on the PATH, or unpacked in the cache."""
    found = shutil.which("redis-server")
    unpacked = CACHE / "redis" / "usr" / "bin" / "redis-server"
    return Path(found) if found else unpacked if unpacked.exists() else None


@contextmanager
def redis(*, durable: bool) -> Generator[Redis | None]:
    """A server on its own socket; None without Redis."""
    binary = program()
    if binary is None:
        yield None
        return
    libraries = ":".join(str(folder) for folder in (CACHE / "redis" / "usr" / "lib").glob("*-linux-gnu"))
    environment = {"LD_LIBRARY_PATH": libraries, "PATH": "/usr/bin:/bin"}
    said = subprocess.run([binary, "--version"], env=environment, capture_output=True, text=True, check=True).stdout
    version = said.partition("v=")[2].partition(" ")[0]
    with tempfile.TemporaryDirectory(prefix="asyncq-bench-") as folder:
        socket = Path(folder) / "redis.sock"
        words = [binary, "--port", "0", "--unixsocket", socket, "--dir", folder, *(DURABLE if durable else ())]
        shell = ["/bin/sh", "-c", KEPT, "sh", *(str(word) for word in words)]
        with subprocess.Popen(shell, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            try:
                _wait_for(socket, process)
                yield Redis(socket, version)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()


def _wait_for(socket: Path, process: subprocess.Popen[bytes]) -> None:
    import time

    for _ in range(500):
        if socket.exists():
            return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise Unfit("redis did not start")

"""A measured program in its own process; benchmarks/peers/role.py has the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any, Self

from benchmarks.peers.peer import Peer
from benchmarks.suite.places import CACHE, LOGS, ROOT, Unfit

LONGEST_S = 300.0
LONGEST_LINE = 64 * 1024 * 1024
SELDOM_S = 5.0  # `tick_s` of a worker that does nothing: a look each 5 ms costs more than all that it does


class Child:
    """A program of a peer.

    Args:
        process: The process.
        name: Its name in errors.

    Attributes:
        calls: How many handlers a worker has called.
        marks: The time of each report, with the number of calls.
    """

    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name
        self.calls = 0
        self.marks: list[tuple[int, int]] = []

    @classmethod
    async def begin(cls, peer: Peer, role: str, dsn: str, **wish: Any) -> Self:
        """Start it in a role; it waits for `go()` if it is to be timed."""
        LOGS.mkdir(parents=True, exist_ok=True)
        words = [role, dsn, json.dumps(wish)]
        with (LOGS / f"{peer.name}-{role}.txt").open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *command(peer),
                *words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=CACHE / "node" if peer.home == "node" else ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                limit=LONGEST_LINE,
            )
        return cls(process, f"{peer.name} {role}")

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def go(self) -> None:
        """Wait until it is prepared, and let it begin."""
        await self.hear("prepared")
        self.tell("go")

    def tell(self, word: str) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")

    async def hear(self, kind: str) -> dict[str, Any]:
        """Read its output, up to a line of this kind.

        Raises:
            Unfit: It ended before.
        """
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said: dict[str, Any] = json.loads(line)
            if said["kind"] == "calls":
                self.calls = said["calls"]
                self.marks.append((time.monotonic_ns(), self.calls))
            if said["kind"] == kind:
                return said
        log = LOGS / f"{self._name.replace(' ', '-')}.txt"
        tail = await asyncio.to_thread(log.read_text)
        raise Unfit(f"{self._name} ended without {kind!r}: {tail[-1500:].strip()}")

    async def report(self) -> dict[str, Any]:
        """Stop a worker, and read its report."""
        self.tell("stop")
        return await self.hear("report")

    async def close(self) -> None:
        """Have it end, by force if need be."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def command(peer: Peer) -> list[str]:
    """The command that starts its program."""
    if peer.home == "node":
        return [str(CACHE / "peers" / "bin" / "node"), peer.program]
    return [str(CACHE / peer.home / "bin" / "python"), "-m", peer.program]


async def play(peer: Peer, role: str, dsn: str, **wish: Any) -> None:
    """Let it play a role that is not timed, to its end."""
    child = await Child.begin(peer, role, dsn, **wish)
    try:
        async with asyncio.timeout(LONGEST_S):
            await child.hear("done")
    finally:
        await child.close()

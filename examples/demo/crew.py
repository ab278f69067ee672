"""The worker processes of the demo, seen from their parent: start them, see that they live, stop them.

Each runs in a session of its own: Ctrl-C in the terminal reaches the parent alone, which stops them with SIGTERM. Each
reads its orders from a pipe, and a second line when it is to begin; the end of the pipe tells it that its parent is
dead (worker.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import msgspec

from asyncq import AsyncqError
from examples.demo.place import Place

STOP_LIMIT_S = 3.0


class DemoFailed(AsyncqError):
    """The demo cannot go on; the message says why."""


class Orders(msgspec.Struct, frozen=True):
    """What a worker process is told: where to work, and how many jobs it runs at once."""

    place: Place
    concurrency: int


class Crew:
    """Some worker processes.

    Args:
        size: How many.
        orders: What each is told.

    Raises:
        OSError: A process could not be started.
    """

    def __init__(self, size: int, orders: Orders) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._size = size
        self._orders = msgspec.json.encode(orders) + b"\n"

    def start(self) -> None:
        """Start the processes; they get ready, and begin when they are told to."""
        # The child imports what we do, from where we do: not what happens to lie in the current folder.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        for _ in range(self._size):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "examples.demo.worker"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=environment,
                start_new_session=True,
            )
            self._processes.append(process)
        self._write(self._orders)

    def begin(self) -> None:
        """Let them begin; the schema is there."""
        self._write(b"begin\n")

    def _write(self, line: bytes) -> None:
        for process in self._processes:
            assert process.stdin is not None
            try:
                process.stdin.write(line)
            except BrokenPipeError:
                self.check()  # it has ended already, and has said why

    def check(self) -> None:
        """See that all of them live.

        Raises:
            DemoFailed: One has ended; the message holds its last words.
        """
        if any(process.poll() is not None for process in self._processes):
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-15:]
            raise DemoFailed("\n".join(["a worker process has ended before its time:", *last]))

    async def stop(self) -> None:
        """Let the workers finish what runs, for a few seconds; then kill them. Returns when the last one is gone."""
        await anyio.to_thread.run_sync(self._end)
        self._said.close()

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + STOP_LIMIT_S
        for process in self._processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()


@asynccontextmanager
async def crew(size: int, orders: Orders) -> AsyncGenerator[Crew]:
    """Worker processes for as long as the block lasts.

    Args:
        size: How many.
        orders: What each is told.

    Yields:
        The crew.
    """
    hired = Crew(size, orders)
    try:
        hired.start()
        yield hired
    finally:
        with anyio.CancelScope(shield=True):
            await hired.stop()

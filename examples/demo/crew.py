"""The worker processes of the demo, as their parent sees them: start them, check that they live, stop them.

Each has its own session: Ctrl-C in the terminal reaches only the parent, which stops them by SIGTERM. Each reads its
orders from a pipe, and a second line as the signal to begin. The end of the pipe means that the parent is dead
(worker.py).
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
    """The demo cannot continue; the message has the reason."""


class Orders(msgspec.Struct, frozen=True):
    """The orders for a worker process: the place, and how many jobs it runs at once."""

    place: Place
    concurrency: int


class Crew:
    """Some worker processes.

    Args:
        size: The number of processes.
        orders: The orders for each of them.

    Raises:
        OSError: A process could not be started.
    """

    def __init__(self, size: int, orders: Orders) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._size = size
        self._orders = msgspec.json.encode(orders) + b"\n"

    def start(self) -> None:
        """Start the processes; they prepare, and wait for `begin`."""
        # The child imports the same modules from the same folders, not from the current folder.
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
        """Let them begin, because the schema exists."""
        self._write(b"begin\n")

    def _write(self, line: bytes) -> None:
        for process in self._processes:
            assert process.stdin is not None
            try:
                process.stdin.write(line)
            except BrokenPipeError:
                self.check()  # it has ended already, and has printed the reason

    def check(self) -> None:
        """Check that all of them live.

        Raises:
            DemoFailed: One has ended; the message has its last lines.
        """
        if any(process.poll() is not None for process in self._processes):
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-15:]
            raise DemoFailed("\n".join(["a worker process has ended too early:", *last]))

    async def stop(self) -> None:
        """Let the workers finish running jobs for a few seconds, then kill them; returns when all have ended."""
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
    """Run worker processes until the block ends.

    Args:
        size: The number of processes.
        orders: The orders for each of them.

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

"""One look at the queue for all browsers of a process: streams share what was read a moment ago."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from time import monotonic
from typing import Any

import msgspec

from asyncq.domain.errors import StoreError

EVERY_S = 2.0
KEEP_ALIVE = b": \n\n"


class Live:
    """Reads values at most once in two seconds, however many browsers ask for them, and never if none does.

    Args:
        clock: A clock in seconds; the monotonic one by default.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._seen: dict[Hashable, tuple[float, Any]] = {}
        self._reading: dict[Hashable, asyncio.Lock] = {}
        self._stopped = asyncio.Event()

    async def look(self, key: Hashable, read: Callable[[], Awaitable[Any]], for_s: float = EVERY_S) -> Any:
        """A value that was read less than `for_s` seconds ago, or is read now; concurrent calls read it once."""
        lock = self._reading.setdefault(key, asyncio.Lock())
        async with lock:
            at, value = self._seen.get(key, (float("-inf"), None))
            if self._clock() - at >= for_s:
                value = await read()
                self._forget()
                self._seen[key] = (self._clock(), value)
            return value

    async def stream(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> AsyncGenerator[bytes]:
        """Server-sent events: the value now, and each time that it has changed, until `stop` or an outage.

        A stream that ends is opened again by the browser, which says so on the page.
        """
        last = b""
        while not self._stopped.is_set():
            try:
                value = msgspec.json.encode(await self.look(key, read))
            except StoreError:
                return
            yield KEEP_ALIVE if value == last else b"data: " + value + b"\n\n"
            last = value
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._stopped.wait()
            except TimeoutError:
                continue

    def stop(self) -> None:
        """End all streams, for good."""
        self._stopped.set()

    def _forget(self) -> None:
        """Drop what nobody has asked for in the last minutes."""
        now = self._clock()
        for key in [key for key, (at, _) in self._seen.items() if now - at > 300]:
            del self._seen[key]
            if not self._reading[key].locked():
                del self._reading[key]

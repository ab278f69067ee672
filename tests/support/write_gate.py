"""A gate before the writes of the completer."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

Write = Callable[..., Awaitable[Any]]


class Gate:
    """Holds writes back until it is opened, and counts them."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.batches: list[int] = []

    def before(self, write: Write) -> Write:
        """Call the real function after the gate."""

        async def behind(line: Any, worker_id: int, ended: Collection[Any], *kept: Any) -> Any:
            self.batches.append(len(ended))
            await self.opened.wait()
            return await write(line, worker_id, ended, *kept)

        return behind

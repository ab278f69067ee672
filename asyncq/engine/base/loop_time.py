"""The clock of the event loop."""

import asyncio


def loop_time() -> float:
    """The time of the running event loop in seconds, from any beginning."""
    return asyncio.get_running_loop().time()

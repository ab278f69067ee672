"""Ends a forked child that returns into its copy of the event loop.

A handler that calls `os.fork` must end the child by `os._exit` or `os.exec...`. A child that returns from the handler,
raises, or awaits would be a second worker with the same id and the same claims.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

_running: list[tuple[asyncio.AbstractEventLoop, int]] = []  # the loop of each worker, and its thread


@contextmanager
def no_copies() -> Generator[None]:
    """Until the block ends, end each forked child that returns into the running event loop."""
    mine = (asyncio.get_running_loop(), threading.get_ident())
    _running.append(mine)
    try:
        yield
    finally:
        _running.remove(mine)


def _end_if_it_comes_back() -> None:
    for loop, thread_id in _running:
        if thread_id == threading.get_ident():  # A child of another thread cannot return into the loop.
            loop.call_soon(_end)
    _running.clear()


def _end() -> NoReturn:
    logging.getLogger("asyncq").error(
        "process %d, which a handler forked, returned into the event loop of the worker, and is ended: "
        "end such a process by os._exit(), or use multiprocessing",
        os.getpid(),
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_if_it_comes_back)

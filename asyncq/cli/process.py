"""Runs a coroutine as the whole work of a process, and ends the process even if handlers do not end.

Python waits for ever for a thread, which cannot be stopped, and for a coroutine that refuses to be cancelled.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn

from asyncq.cli.failures import FAILED
from asyncq.cli.logs import LOGGER

PATIENCE_S = 3.0  # how long the loop and the threads may take to end


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine on uvloop if it is installed, else on asyncio's own loop.

    The process ends at most three seconds after the coroutine. If threads or coroutines still run then, the exit code
    is 1.
    """
    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        runner.run(main())
    finally:
        threading.Thread(target=_end_by_force, name="asyncq end", daemon=True).start()
        runner.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _end_by_force() -> NoReturn:
    time.sleep(PATIENCE_S)
    main = threading.main_thread()
    left = [_place(thread) for thread in threading.enumerate() if not thread.daemon and thread is not main]
    logging.getLogger(LOGGER).error(
        "the process ends by force, %s",
        f"threads still run: {', '.join(left)}" if left else "a coroutine refuses to be cancelled",
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(FAILED)


def _place(thread: threading.Thread) -> str:
    """A thread's name, and the file and line where it is."""
    frames: dict[int, FrameType] = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    frame = frames.get(thread.ident or 0)
    return thread.name if frame is None else f"{thread.name} at {frame.f_code.co_filename}, line {frame.f_lineno}"

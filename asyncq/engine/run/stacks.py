"""Shows where code of the user is now: the stack of a thread, or of a coroutine that waits."""

import asyncio
import sys
import traceback
from types import FrameType
from typing import Any

from asyncq.engine.base import user_code

MOST = 30
LOOPS = ("asyncio", "selectors", "uvloop")
# The folder as frames name it: in a packed program the modules have other names.
_OURS = user_code.start.__code__.co_filename
UNKNOWN = "  (its stack is not known)\n"


def of_thread(ident: int) -> str:
    """The stack of a thread, from the handler, or from the callback of its event loop, to the current line.

    Lines as in a traceback, of at most the innermost 30 frames; without values of variables.
    """
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage] - there is no other way
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < MOST and not _is_ours(frame):
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    found.reverse()
    return _text(found)


def is_in_loop(ident: int) -> bool:
    """Whether a thread is in its event loop's own code, for example waiting, and in no other code."""
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage] - as above
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in LOOPS


def of_task(task: asyncio.Task[Any]) -> str:
    """The coroutines of an asyncio task that waits, from the handler to the innermost one, as in `of_thread`."""
    found: list[tuple[FrameType, int]] = []
    waits: Any = task.get_coro()
    while waits is not None:
        frame: FrameType | None = _first(waits, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None and frame.f_code.co_filename != _OURS:
            found.append((frame, frame.f_lineno))
        waits = _first(waits, "cr_await", "gi_yieldfrom", "ag_await")
    return _text(found[-MOST:])


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename == _OURS or code.co_qualname == "Handle._run"


def _first(value: Any, *names: str) -> Any:
    for name in names:
        if (found := getattr(value, name, None)) is not None:
            return found
    return None


def _text(found: list[tuple[FrameType, int]]) -> str:
    return "".join(traceback.StackSummary.extract(iter(found)).format()) or UNKNOWN

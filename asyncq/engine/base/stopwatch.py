"""Measures durations without the time in which the event loop was blocked, because an end is not seen then."""

import asyncio
from typing import Self

from asyncq.engine.base.loop_time import loop_time

TICK_S = 0.005


class Stopwatch:
    """Measures a block in the event loop's thread.

    A handler that computes for a second hides an answer that arrived after a millisecond. So delays of the loop's
    ticks are not counted.
    """

    def __init__(self) -> None:
        self.took_s = self._began_at = self._due_at = self._blocked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._began_at = loop_time()
        self._tick_again()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._count_late()
        self.took_s = loop_time() - self._began_at - self._blocked_s

    def _tick(self) -> None:
        self._count_late()
        self._tick_again()

    def _tick_again(self) -> None:
        self._due_at = loop_time() + TICK_S
        self._timer = asyncio.get_running_loop().call_at(self._due_at, self._tick)

    def _count_late(self) -> None:
        self._blocked_s += max(0.0, loop_time() - self._due_at)

"""Asks an event loop for an answer, from another thread."""

import asyncio
import time

TICK_S = 1.0  # how often it is asked
PAUSE_S = 3 * TICK_S  # a thread that ran so late was stopped with its process, or the machine was


class _Question:
    """Asked in the thread, answered in the loop."""

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.is_answered = False


class Pulse:
    """Whether an event loop answers; made in that loop, used in one other thread."""

    def __init__(self) -> None:
        self._home = asyncio.get_running_loop()
        self._question: _Question | None = None
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """Ask, unless a question is open; called every `TICK_S` or more often."""
        now, asked = time.monotonic(), self._question
        if asked is None or asked.is_answered:
            self._ask(now)
        elif now - self._looked_at > PAUSE_S:
            asked.asked_at = now
        self._looked_at = now

    def _ask(self, now: float) -> None:
        self._question = _Question(now)
        if not self._home.is_closed():
            try:
                self._home.call_soon_threadsafe(_answer, self._question)
            except RuntimeError:
                pass  # The loop closed in this very moment: the worker has ended.

    @property
    def silent_s(self) -> float:
        """The seconds for which the loop has owed an answer; 0 if it owes none. May be read in any thread."""
        asked = self._question
        return 0.0 if asked is None or asked.is_answered else time.monotonic() - asked.asked_at


def _answer(question: _Question) -> None:
    question.is_answered = True

"""The time limits of one run: timers that exist only while its handler runs."""

import asyncio
import time
from collections.abc import Callable

from asyncq.domain.job import Claim
from asyncq.domain.outcome import TimedOut
from asyncq.domain.task import Task
from asyncq.domain.time_limit import Extras


class TimeLimit:
    """The time limits of one run, in seconds from its start. An extension never passes the deadline of the job."""

    def __init__(self, soft_s: float | None, hard_s: float | None, deadline_at: float | None = None) -> None:
        self._began_at = time.perf_counter()
        self._soft_s = soft_s
        self._hard_s = hard_s
        self._deadline_s = None if deadline_at is None else deadline_at - self._began_at
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._at_end: list[Callable[[], None]] = []
        self._held_at: float | None = None
        self._waited_s = 0.0

    def hold(self) -> None:
        """Stop the time of the hard limit until `go_on` is called; the deadline does not move."""
        self._held_at = time.perf_counter()

    def go_on(self) -> None:
        """Let the time of the hard limit go on."""
        if self._held_at is None:
            return
        self._waited_s += time.perf_counter() - self._held_at
        self._held_at = None
        for time_out in self._at_end:
            self._end_later(time_out)

    def extend(self, by_s: float) -> None:
        """Let the run continue for this time from now at least; may be called in any thread."""
        if self._hard_s is not None:
            self._hard_s = max(self._hard_s, time.perf_counter() - self._began_at - self._waited_s + by_s)

    def timed_out(self) -> TimedOut:
        """The outcome of the run at its end by these limits; the error lacks the traceback."""
        if self._deadline_s is not None and self._end_s == self._deadline_s:
            return TimedOut(
                f"DeadlineExceeded: cut off at its deadline, after {self._deadline_s:.3g} s", self._deadline_s
            )
        hard_s = self._hard_s or 0.0
        return TimedOut(f"TimedOut: ran longer than {hard_s:g} s", hard_s)

    def start(self, ask_to_end: Callable[[], None], time_out: Callable[[], None]) -> None:
        """Start the timers: `ask_to_end` is called at the soft limit, `time_out` at the hard one or the deadline."""
        if self._soft_s is not None:
            self._call_at(self._soft_s, "soft", ask_to_end)
        self._at_end.append(time_out)
        self._end_later(time_out)

    def thread_ended(self) -> None:
        """Let a hard limit that passed while a thread ran, which cannot be cut off, end what follows the thread.

        Not at once: a run that ends without another wait has done its work.
        """
        if (timer := self._timers.get("end")) is not None:
            timer.cancel()
        for time_out in self._at_end:
            self._end_later(time_out)

    def stop(self) -> None:
        self._at_end.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    @property
    def _end_s(self) -> float | None:
        hard_s = None if self._hard_s is None or self._held_at is not None else self._hard_s + self._waited_s
        return min((end_s for end_s in (hard_s, self._deadline_s) if end_s is not None), default=None)

    def _end_later(self, time_out: Callable[[], None]) -> None:
        def look() -> None:
            # It may have been extended or held meanwhile; and the clock of the loop is another one.
            if self._end_s is None or time.perf_counter() < self._began_at + self._end_s:
                self._end_later(time_out)
            else:
                time_out()

        if self._end_s is not None:
            self._call_at(self._end_s, "end", look)

    def _call_at(self, limit_s: float, name: str, call: Callable[[], None]) -> None:
        delay_s = self._began_at + limit_s - time.perf_counter()
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(max(delay_s, 0.0), call)


def time_limit_of(task: Task[...], claim: Claim, extras: Extras) -> TimeLimit | None:
    """Return the limits of a run: those of its job, else those of its task; None without any."""
    soft_s, hard_s = (None, None) if task.timeout is None else (task.timeout.soft_s, task.timeout.hard_s)
    if extras.timeout_s is not None or extras.soft_s is not None:
        soft_s, hard_s = extras.soft_s, extras.timeout_s
    return None if soft_s is hard_s is claim.deadline_at is None else TimeLimit(soft_s, hard_s, claim.deadline_at)

"""How many jobs the handlers finish in a second, lately; decides how far ahead is fetched."""

from __future__ import annotations

WINDOW_S = 0.05  # the pace is that of the last one to two windows
SHORTEST_S = 0.02  # two jobs that happen to end together are no pace


class Pace:
    """A count of finished jobs, looked at now and then."""

    def __init__(self) -> None:
        self._older = self._newer = (0.0, 0)

    def look(self, now: float, finished: int) -> float:
        """The pace.

        Args:
            now: The time, in seconds of any clock.
            finished: How many jobs have finished so far.

        Returns:
            Jobs a second.
        """
        if now - self._newer[0] >= WINDOW_S:
            # After a pause both marks are old; what was finished before it says nothing about now.
            paused = now - self._newer[0] >= 2 * WINDOW_S
            self._older = (now, finished) if paused else self._newer
            self._newer = (now, finished)
        began, before = self._older
        return (finished - before) / max(now - began, SHORTEST_S)

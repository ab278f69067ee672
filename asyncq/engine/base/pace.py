"""How many jobs a second the handlers have finished lately; it decides how many jobs are fetched in advance."""

WINDOW_S = 0.05  # the pace is measured over one to two windows
SHORTEST_S = 0.02  # two jobs that end at the same time are not a pace


class Pace:
    """A count of finished jobs over time."""

    def __init__(self) -> None:
        self._older = self._newer = (0.0, 0)

    def look(self, now: float, finished: int) -> float:
        """The current pace in jobs per second, given the time and the number of jobs that have finished so far."""
        if now - self._newer[0] >= WINDOW_S:
            # After a pause both marks are old, and jobs that finished before it do not count.
            paused = now - self._newer[0] >= 2 * WINDOW_S
            self._older = (now, finished) if paused else self._newer
            self._newer = (now, finished)
        began, before = self._older
        return (finished - before) / max(now - began, SHORTEST_S)

"""Returns the claims of fetches with a lost answer, by the tokens of the fetches.

The worker does not know the jobs of these claims, and while it is alive no rescue returns them.
"""

from asyncq.domain.events import JobsReturned
from asyncq.engine.base.loop_time import loop_time
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.shield import shielded
from asyncq.store.database import ReconnectingConnection
from asyncq.store.settle import return_lost, still_claimed
from asyncq.store.workers import wake_workers

# The pause before another try: the server may still run a fetch after its connection was closed.
AGAIN_S = 30.0
# A token is forgotten this long after the server's first answer, unless another transaction locks its claims.
FORGET_S = 60.0


class UnconfirmedFetches:
    """The unconfirmed fetches of one worker."""

    def __init__(self, line: ReconnectingConnection, observers: Observers) -> None:
        self._line = line
        self._observers = observers
        self._noted: dict[tuple[int, int], float | None] = {}  # (worker id, token) -> time of the server's first answer
        self._look_at = 0.0

    def note(self, worker_id: int, token: int) -> None:
        """Note a fetch that may have been committed."""
        self._look_at = loop_time()
        self._noted[worker_id, token] = None

    @property
    def is_time(self) -> bool:
        return bool(self._noted) and loop_time() >= self._look_at

    async def give_back(self) -> None:
        """Return the lost claims; after an error they stay noted. If cancelled, it still waits for the statement."""
        now = loop_time()
        asked = list(self._noted)
        held: set[tuple[int, int]] = set()
        for worker_id in {worker_id for worker_id, _ in asked}:
            tokens = [token for owner, token in asked if owner == worker_id]
            async with shielded(self._line):
                if ids := await return_lost(self._line, worker_id, tokens):
                    reason = "the answer to their fetch was lost"
                    self._observers.emit(JobsReturned(job_ids=tuple(sorted(ids)), reason=reason))
                    await wake_workers(self._line)  # This worker may have no free slot.
                if old := [token for token in tokens if self._is_old((worker_id, token), now)]:
                    held |= {(worker_id, token) for token in await still_claimed(self._line, worker_id, old)}
        for lost in asked:
            if lost in held or not self._is_old(lost, now):
                self._noted[lost] = self._noted[lost] or now
            else:
                del self._noted[lost]
        if self._look_at <= now:  # Otherwise a new one was noted during the statement.
            self._look_at = now + AGAIN_S

    def _is_old(self, lost: tuple[int, int], now: float) -> bool:
        return now - (self._noted[lost] or now) >= FORGET_S

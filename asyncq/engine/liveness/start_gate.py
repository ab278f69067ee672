"""Decides when claims start: none without a proof that the worker lives, and some only after a beat has named them.

When a worker dies, a job loses an attempt only if the worker's row names it: no other record shows that it had begun.
Each beat names the running jobs. Two kinds of jobs are named before they begin, and wait for the commit of that beat:
the last attempt of a job, which must not run twice; and a job whose last worker died while it ran.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet

from asyncq.domain.job import Claim
from asyncq.engine.base.lease import Lease, now_s
from asyncq.engine.run.run import Run

POSSIBLE_KILLER = "WorkerLost: "
MOST_NAMED = 1000


class StartGate:
    """The admission of one worker."""

    def __init__(self, lease: Lease, running: AbstractSet[Run], beat_now: Callable[[], None]) -> None:
        self._lease = lease
        self._running = running
        self._beat_now = beat_now
        self._proofs = itertools.count(1)
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._cancelled: set[str] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many claims wait to be named."""
        return len(self._asked)

    def may_start_now(self, claim: Claim) -> bool:
        """Whether a claim may start without further ado; asked for each job. Where it says no, `admit` decides."""
        return claim.last_error is None and claim.attempts + 1 < claim.max_attempts and now_s() < self._lease.ends_at

    async def admit(self, claim: Claim) -> bool:
        """Name a claim that has to be named; let others start if the lease is held.

        False when the worker stops, or cannot prove that it lives: then the claim may not start.

        If cancelled, it may stay named until the next beat.
        """
        if not self._lease.is_held or self._is_closed:
            return False
        if not has_to_be_named(claim):
            return True
        return await self._is_named(_name(claim.id, claim.token))

    async def is_proven(self) -> bool:
        """Wait for a beat that is sent from now on; False when the worker stops, or cannot prove that it lives.

        Claims of a late answer, or of a process that was stopped, may belong to another worker: a rescue may have
        declared this one dead meanwhile.

        If cancelled, the next beat may still name a claim of job 0, which does not exist.
        """
        if not self._lease.is_held or self._is_closed:
            return False
        return await self._is_named(_name(0, next(self._proofs)))

    async def _is_named(self, name: str) -> bool:
        asked = self._asked[name] = asyncio.get_running_loop().create_future()
        self._beat_now()
        try:
            return await asked and self._lease.is_held and name not in self._cancelled
        finally:
            del self._asked[name]
            self._cancelled.discard(name)

    def cancel(self, jobs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
        """Let none of these jobs, by id and token, start that waits to be named; returns those that waited."""
        found = {job: name for job in jobs if (name := _name(*job)) in self._asked}
        # They may have been named already, and not have gone on yet.
        self._cancelled.update(found.values())
        self._answer(found.values(), may_start=False)
        return set(found)

    def started(self) -> list[str]:
        """Which claims have started, or are about to, each as `job/token`; may be called in any thread.

        If a worker runs more than a beat can carry, all that have to be named, and as many others as fit.
        """
        # The copies are made in one step of the interpreter.
        asked, runs = list(self._asked), list(self._running)
        # One that waits has not begun, but a beat that no longer names a last attempt would let it run twice.
        running = [each for run in runs if not run.is_waiting or has_to_be_named(run.claim) for each in run.claims]
        if len(running) > MOST_NAMED:
            running.sort(key=has_to_be_named, reverse=True)
            running = running[: max(MOST_NAMED, sum(map(has_to_be_named, running)))]
        return [*asked, *(_name(claim.id, claim.token) for claim in running)]

    def named(self, names: Collection[str]) -> None:
        """A beat was written that named these claims."""
        self._answer(names, may_start=True)

    def refuse(self) -> None:
        """Those that wait may not start: others may have taken over."""
        self._answer(self._asked, may_start=False)

    def _answer(self, names: Iterable[str], *, may_start: bool) -> None:
        for name in names:
            if (asked := self._asked.get(name)) is not None and not asked.done():
                asked.set_result(may_start)

    def close(self) -> None:
        """Nothing starts any more but what is plain."""
        self._is_closed = True
        self.refuse()


def has_to_be_named(claim: Claim) -> bool:
    """Whether this is the last attempt of a job, or its last worker died while it ran."""
    is_last = claim.attempts + 1 >= claim.max_attempts
    return is_last or (claim.last_error is not None and claim.last_error.startswith(POSSIBLE_KILLER))


def _name(job_id: int, token: int) -> str:
    return f"{job_id}/{token}"

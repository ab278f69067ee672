"""The ends of claims that are not written yet. An end is kept until it is written or refused.

A lost connection delays a completion, but never loses it. Completed runs need no settlement object. They have their own
dicts and statement, at half the cost of other ends.
"""

import asyncio
import time
from collections.abc import Collection
from typing import TypeVar

import msgspec

from asyncq.domain.events import JobsReturned
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Outcome, Returned, Settlement, settle
from asyncq.domain.retry import DefaultRetry
from asyncq.engine.base.observers import Observers
from asyncq.engine.fetch.shares import Shares
from asyncq.engine.run.run import Run
from asyncq.engine.settle.reporter import Reporter

BATCH = 500
FULL = 2 * BATCH
HELD_BACK = 10  # up to this many times FULL ends may wait for locked rows: they delay no other end
LATER_S = 0.1

ItemT = TypeVar("ItemT")


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The end of a claim that waits to be written; it is part of no reference cycle.

    `uncertain` says whether an earlier try may have been committed, or may still be.
    """

    settlement: Settlement
    worker_id: int
    run: Run | None
    outcome: Outcome
    uncertain: bool = False


class Outbox:
    """The outbox of one worker; the completer writes its ends.

    Attributes:
        well: Completed runs, by the job's id.
        pending: All other ends.
        writing_well: The batch of completed runs that is being written.
        writing: The batch of other ends.
        ended_well: The number of completed runs so far.
        changed: Set when the completer may have work.
        emptied: Set after a batch, for job loops that wait in `room`.
    """

    def __init__(self, reporter: Reporter, observers: Observers, shares: Shares) -> None:
        self._reporter = reporter
        self._observers = observers
        self._shares = shares
        self.well: dict[int, Run] = {}
        self.pending: dict[int, Ended] = {}
        self.writing_well: dict[int, Run] = {}
        self.writing: dict[int, Ended] = {}
        self._held_back: dict[int, Ended] = {}
        self._later_at = 0.0
        self.ended_well = 0
        self.changed = asyncio.Event()
        self.emptied = asyncio.Event()

    # For the job loops, and for code that gives claims back

    @property
    def is_full(self) -> bool:
        """Whether job loops should wait: writing does not keep up, or other transactions hold very many rows."""
        return len(self.well) + len(self.pending) + len(self._held_back) // HELD_BACK >= FULL

    async def room(self) -> None:
        """Wait until writing has caught up."""
        while self.is_full:
            self.emptied.clear()
            await self.emptied.wait()

    def ended(self, run: Run) -> None:
        """A run has ended; its end may be written already."""
        self._shares.ended(run.claim)

    def put_well(self, run: Run) -> None:
        job_id = run.claim.id
        if job_id in self.well or job_id in self.pending or job_id in self._held_back:
            self._lose_older(job_id)
        self.well[job_id] = run
        self.ended_well += 1

    def put(self, ended: Ended) -> None:
        """Take any other end."""
        self._lose_older(ended.settlement.id)
        self.pending[ended.settlement.id] = ended
        self.changed.set()

    def give_back(self, claims: Collection[Claim], reason: str, worker_id: int) -> None:
        """Return claims that were not started; they were claimed under this id."""
        for claim in claims:
            self._shares.ended(claim)
            settlement = settle(claim, Returned(), DefaultRetry(), 0.0)
            self.put(Ended(settlement, worker_id, None, Returned()))
        if claims:
            self._observers.emit(JobsReturned(job_ids=tuple(claim.id for claim in claims), reason=reason))

    def _lose_older(self, job_id: int) -> None:
        """Report an older claim of this job as lost, since the worker holds a newer one."""
        if job_id in self.well:
            self._reporter.lost(self.well.pop(job_id))
        for older in (self.pending, self._held_back):
            if job_id in older:
                self._reporter.lost(older.pop(job_id).run)

    # What is left to write

    @property
    def unwritten(self) -> int:
        return sum(map(len, self._all))

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The ids of jobs with an unwritten end."""
        return tuple(sorted({job_id for ends in self._all for job_id in ends}))

    def following(self) -> int:
        """Count the unwritten ends with which the next job of a partition may be claimed."""
        return sum(self.has_followers(run.claim) for runs in (self.well, self.writing_well) for run in runs.values())

    def has_followers(self, claim: Claim) -> bool:
        """Return whether `claim_next` may settle this job: it has a partition, and is in no batch."""
        return claim.partition is not None and not claim.is_packed and self._shares.may_follow(claim)

    @property
    def _all(self) -> tuple[dict[int, Run] | dict[int, Ended], ...]:
        return self.well, self.pending, self.writing_well, self.writing, self._held_back

    # For the completer

    def take_batch(self) -> None:
        self.writing_well, self.well = _first(self.well)
        self.writing, self.pending = _first(self.pending)

    def put_off(self, held: Collection[Ended], *, uncertain: bool) -> None:
        """Keep ends for later: other transactions lock their rows, perhaps an earlier try of this worker."""
        if held and not self._held_back:  # Later ends do not postpone the retry.
            self._later_at = time.perf_counter() + LATER_S
        for ended in held:
            del self.writing[ended.settlement.id]
            later = msgspec.structs.replace(ended, uncertain=uncertain or ended.uncertain)
            self._held_back[ended.settlement.id] = later

    @property
    def retry_in_s(self) -> float | None:
        """The seconds until ends that were put off are tried again; None if there are none."""
        return max(self._later_at - time.perf_counter(), 0.0) if self._held_back else None

    def retry_held_back(self) -> None:
        """Move ends that were put off to `pending`, if it is time."""
        if self.retry_in_s == 0.0:
            self.pending.update(self._held_back)
            self._held_back.clear()


def _first(ends: dict[int, ItemT]) -> tuple[dict[int, ItemT], dict[int, ItemT]]:
    """Split off the next batch."""
    if len(ends) <= BATCH:
        return ends, {}
    return {job_id: ends.pop(job_id) for job_id in [*ends][:BATCH]}, ends

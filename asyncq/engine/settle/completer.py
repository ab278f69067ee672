"""Gathers what runs came to and writes it in batches: at once when nothing is being written, else in the next batch.

Where very many end well, they are gathered for some milliseconds first, since what a batch costs depends little on its
size; likewise where handlers hold the event loop, which batches take from them. A job whose queue waits for its end is
written at once, and with it all others.

What was gathered is kept until it is written or refused: a lost connection costs time, never a completion. Most runs
end well: these are kept as they are, and written and told by themselves, at half the cost of what needs a settlement.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from operator import attrgetter
from typing import TypeVar, assert_never

import anyio
import msgspec

from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import JobsReturned, SettleFailed
from asyncq.domain.job import Claim
from asyncq.domain.outcome import (
    Completed,
    Ending,
    Outcome,
    Returned,
    Settlement,
    completion,
    overruled,
    settle,
    words,
)
from asyncq.domain.retry import DefaultRetry
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.pace import Pace
from asyncq.engine.base.shield import Patience, shielded
from asyncq.engine.run.run import Run
from asyncq.engine.run.transactions import Settled
from asyncq.engine.settle.claim_next import ClaimNext
from asyncq.engine.settle.reporter import Reporter
from asyncq.store import settle as store
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.workers import is_known

BATCH = 500
FULL = 2 * BATCH
HELD_BACK = 10  # rows that others hold may be so many times as many: they delay nobody else
LATER_S = 0.1
WRITE_DEADLINE_S = 5.0  # at first; doubled, up to the next line, while no answer comes
LONGEST_DEADLINE_S = 60.0
FIRST_RETRY_S = 0.04
SLOWEST_RETRY_S = 0.5
IDLE_S = 30.0
# So many a second are gathered for so long, or until they are enough.
MANY = 2_000
GATHER_S = 0.004
ENOUGH = 50
# The same where handlers hold the loop.
MANY_OF_HELD = 200
GATHER_HELD_S = 0.02

ItemT = TypeVar("ItemT")
_worker_id = attrgetter("worker_id")


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The end of a claim that waits to be written, with the event that reports it; no reference leads back to it.

    `uncertain` says whether an earlier try may have been committed, or may still be.
    """

    settlement: Settlement
    worker_id: int
    run: Run | None
    outcome: Outcome
    uncertain: bool = False


class Completer:
    """The one writer of settlements of a worker.

    Args:
        line: Its connection.
        reporter: Tells what was committed.
        observers: Told when writing fails.
        settled: Called with the settlements that were written: a queue was freed, a retry is due.
        claim_next: Claims the jobs that follow in their queues.

    Attributes:
        is_held: Whether handlers have held the event loop for much of the time, lately.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        reporter: Reporter,
        observers: Observers,
        settled: Callable[[Iterable[Settlement]], None],
        claim_next: ClaimNext,
    ) -> None:
        self._line = line
        self._reporter = reporter
        self._observers = observers
        self._settled = settled
        self._claim_next = claim_next
        self._well: dict[int, Run] = {}
        self._pending: dict[int, Ended] = {}
        self._writing_well: dict[int, Run] = {}
        self._writing: dict[int, Ended] = {}
        self._held_back: dict[int, Ended] = {}
        self._later_at = 0.0
        self._ended_well = 0
        self._pace = Pace()
        self._outage = Outage("writing results of jobs", observers.emit)
        self._patience = Patience(WRITE_DEADLINE_S, LONGEST_DEADLINE_S)
        self._stir = asyncio.Event()
        self._emptied = asyncio.Event()
        self._closing = False
        self.is_held: Callable[[], bool] = _never

    @property
    def is_full(self) -> bool:
        """Whether job loops should wait: writing does not keep up, or somebody holds very many rows."""
        return len(self._well) + len(self._pending) + len(self._held_back) // HELD_BACK >= FULL

    @property
    def unwritten(self) -> int:
        """How many ends are not written yet."""
        return sum(map(len, self._all))

    def following(self) -> int:
        """How many ends are not written yet that the jobs which follow in their queues may be claimed with."""
        return sum(_has_followers(run) for runs in (self._well, self._writing_well) for run in runs.values())

    async def room(self) -> None:
        """Wait until writing has caught up."""
        while self.is_full:
            self._emptied.clear()
            await self._emptied.wait()

    def hand_over(self, run: Run, outcome: Outcome) -> None:
        """Take what a run came to; it is written soon, unless a transaction of its handler has written it."""
        run.ended_at = time.perf_counter()
        if run.settling is not None and run.settling.settled is not None:
            self._told_by_handler(run, outcome, run.settling.settled)
        elif type(outcome) is Completed and not run.cancelled:
            job_id = run.claim.id
            if job_id in self._well or job_id in self._pending or job_id in self._held_back:
                self._lose_older(job_id)
            self._well[job_id] = run
            self._ended_well += 1
            if len(self._well) in (1, ENOUGH) or run.claim.queue is not None:
                self._stir.set()
        else:
            settlement = settle(run.claim, outcome, run.task.retry, random.random())
            self._add(Ended(settlement, run.worker_id, run, outcome))

    def _told_by_handler(self, run: Run, outcome: Outcome, settled: Settled) -> None:
        settlement = settle(run.claim, outcome, run.task.retry, random.random())
        match settled:
            case "lost":
                self._reporter.lost(run)
                self._settled([])
            case "cancelled here":
                self._reporter.cancelled(run, settlement)
                self._settled([overruled(settlement, "cancelled")])
            case "completed" | "rerun":
                self._reporter.settled(run, settlement, outcome)
                self._settled([settlement if settled == "completed" else overruled(settlement, "rerun")])
            case _:
                assert_never(settled)

    def give_back(self, claims: Collection[Claim], reason: str, worker_id: int) -> None:
        """Return claims that were not started.

        Args:
            claims: They.
            reason: Why, for the log.
            worker_id: Under which id they were claimed.
        """
        for claim in claims:
            settlement = settle(claim, Returned(), DefaultRetry(), 0.0)
            self._add(Ended(settlement, worker_id, None, Returned()))
        if claims:
            self._observers.emit(JobsReturned(job_ids=tuple(claim.id for claim in claims), reason=reason))

    def _add(self, ended: Ended) -> None:
        self._lose_older(ended.settlement.id)
        self._pending[ended.settlement.id] = ended
        self._stir.set()

    def _lose_older(self, job_id: int) -> None:
        """The same worker holds a newer claim of this job: an older one, if it is still here, was lost."""
        if job_id in self._well:
            self._reporter.lost(self._well.pop(job_id))
        for older in (self._pending, self._held_back):
            if job_id in older:
                self._reporter.lost(older.pop(job_id).run)

    def close(self) -> None:
        """End when everything is written."""
        self._closing = True
        self._stir.set()

    async def run(self, progress: Callable[[], None]) -> None:
        """Write until closed, and then until nothing is left.

        Args:
            progress: Called after each batch.
        """
        while not (self._closing and not self.unwritten):
            self._stir.clear()
            self._look_at_held_back()
            if self._well or self._pending:
                if self._has_time():
                    await self._gather()
                await self._write_batch()
                self._emptied.set()
                progress()
            else:
                await self._rest()

    def _has_time(self) -> bool:
        """Whether to gather more before writing: very many end, and nobody waits for one of these."""
        many = MANY_OF_HELD if self.is_held() else MANY
        pace = self._pace.look(time.perf_counter(), self._ended_well)
        if pace < many or self._closing or self._pending or len(self._well) >= ENOUGH:
            return False
        return all(run.claim.queue is None for run in self._well.values())

    async def _gather(self) -> None:
        """Let more runs end; one whose queue waits for it, and any other end than a good one, is written at once."""
        with anyio.move_on_after(GATHER_HELD_S if self.is_held() else GATHER_S):
            await self._stir.wait()

    def _look_at_held_back(self) -> None:
        """Rows that another transaction held are tried again after a while, however busy this worker is."""
        if self._held_back and time.perf_counter() >= self._later_at:
            self._pending.update(self._held_back)
            self._held_back.clear()

    async def _rest(self) -> None:
        """Wait for something to write; an idle worker gives its connection back."""
        wait_s = max(self._later_at - time.perf_counter(), 0.0) if self._held_back else IDLE_S
        try:
            async with asyncio.timeout(wait_s):
                await self._stir.wait()
        except TimeoutError:
            if not self._held_back:
                await self._line.rest()

    async def _write_batch(self) -> None:
        self._writing_well, self._well = _first(self._well)
        self._writing, self._pending = _first(self._pending)
        tries = 0
        uncertain = False
        while self._writing_well or self._writing:
            try:
                async with shielded(self._line, self._patience.deadline_s):
                    await self._write_once(uncertain)
                self._patience.answered()
                self._outage.over()
            except (AsyncqError, TimeoutError) as error:
                tries += 1
                if isinstance(error, TimeoutError):
                    self._patience.lost()
                uncertain = uncertain or is_unknown(error)
                await self._back_off(error, tries)

    async def _write_once(self, uncertain: bool) -> None:
        """Write what is in hand, by the worker id under which it was claimed; sort out what was not written.

        Args:
            uncertain: Whether an earlier try may have been committed although its answer was lost. A claim that is not
                held any more then counts as settled by it, unless a rescue has declared the worker dead.
        """
        # Good ends come first: their queues go on. Those that are not written by it join the others.
        for worker_id, group in groupby([*self._writing_well.values()], _worker_id):
            # Apart: the statement that claims the next jobs of queues knows rows only.
            for runs in _by_kind([*group]):
                await self._write_well(worker_id, runs)
        for worker_id, part in groupby([*self._writing.values()], _worker_id):
            await self._write_rest(worker_id, [*part], uncertain)

    async def _write_well(self, worker_id: int, runs: list[Run]) -> None:
        """Write jobs that ended well, all that others can follow or none."""
        claims = [run.claim for run in runs]
        go_on: set[str] = set()
        if _has_followers(runs[0]) and (room := await self._claim_next.room(worker_id)):
            written, go_on = await self._claim_next.settle(worker_id, claims, room)
        else:
            written = await store.complete(self._line, worker_id, claims)
        # Told at once: if a statement that follows fails, the next try does not find them.
        self._conclude_well(runs, written, go_on)

    async def _write_rest(self, worker_id: int, part: list[Ended], uncertain: bool) -> None:
        """Write all other ends. A job that somebody else locks is put off; a claim that is lost may be in doubt."""
        endings = await store.settle_rest(self._line, worker_id, [ended.settlement for ended in part])
        by_ending: defaultdict[Ending, list[Ended]] = defaultdict(list)
        for ended in part:
            by_ending[endings[ended.settlement.id]].append(ended)
        self._put_off(by_ending.pop("held", []), uncertain)
        lost = by_ending.pop("lost", [])
        for ending, those in by_ending.items():
            self._conclude(those, ending)
        in_doubt = [ended for ended in lost if uncertain or ended.uncertain]
        if in_doubt and await is_known(self._line, worker_id):
            # An earlier try was committed, but its answer was lost: a run that was cancelled here ended as cancelled.
            self._conclude([ended for ended in in_doubt if _is_cancelled(ended)], "cancelled")
            self._conclude([ended for ended in in_doubt if not _is_cancelled(ended)], "written")
            lost = [ended for ended in lost if not (uncertain or ended.uncertain)]
        self._conclude(lost, "lost")

    def _put_off(self, held: list[Ended], uncertain: bool) -> None:
        """Somebody else locks these rows; our own earlier try may be the one, and be committed later."""
        if held and not self._held_back:  # Those that follow do not put it off.
            self._later_at = time.perf_counter() + LATER_S
        for ended in held:
            del self._writing[ended.settlement.id]
            self._held_back[ended.settlement.id] = msgspec.structs.replace(
                ended, uncertain=uncertain or ended.uncertain
            )

    def _conclude_well(self, runs: list[Run], written: set[int], go_on: Collection[str]) -> None:
        """It is known which of these were written."""
        for run in runs:
            del self._writing_well[run.claim.id]
            if run.claim.id not in written:
                self._writing[run.claim.id] = Ended(completion(run.claim), run.worker_id, run, Completed())
        if len(written) < len(runs):
            runs = [run for run in runs if run.claim.id in written]
        if runs:
            self._reporter.ended_well(runs)
        # Of a queue that goes on there is nothing new.
        if ended := [run.claim for run in runs if run.claim.queue not in go_on]:
            self._settled([completion(claim) for claim in ended if claim.queue is not None])

    def _conclude(self, part: list[Ended], ending: Ending) -> None:
        """It is known what became of these: report it."""
        for ended in part:
            del self._writing[ended.settlement.id]
            if ending == "lost":
                self._reporter.lost(ended.run)
            elif ending == "cancelled":
                self._reporter.cancelled(ended.run, ended.settlement)
            else:
                self._reporter.settled(ended.run, ended.settlement, ended.outcome)
        if part:
            self._settled([overruled(ended.settlement, ending) for ended in part])

    async def _back_off(self, error: Exception, tries: int) -> None:
        wait_s = backoff_s(tries, FIRST_RETRY_S, SLOWEST_RETRY_S)
        event = SettleFailed(
            count=self.unwritten, error=words(error), retry_in_s=wait_s, failures=self._outage.failed()
        )
        self._observers.emit(event)
        await anyio.sleep(wait_s)

    def abandoned(self) -> tuple[int, ...]:
        """The jobs whose ends were never written."""
        return tuple(sorted({job_id for ends in self._all for job_id in ends}))

    @property
    def _all(self) -> tuple[dict[int, Run] | dict[int, Ended], ...]:
        return self._well, self._pending, self._writing_well, self._writing, self._held_back


def _by_kind(runs: list[Run]) -> list[list[Run]]:
    """Runs of jobs that others can follow, and the others; none is empty."""
    serial = [run for run in runs if _has_followers(run)]
    plain = [run for run in runs if not _has_followers(run)] if serial else runs
    return [kind for kind in (serial, plain) if kind]


def _has_followers(run: Run) -> bool:
    """Whether the next job of its queue may be claimed as this one is settled; after a batch a fetch does."""
    return run.claim.queue is not None and not run.claim.is_packed


def _is_cancelled(ended: Ended) -> bool:
    return ended.run is not None and ended.run.cancelled


def _never() -> bool:
    return False


def _first(ends: dict[int, ItemT]) -> tuple[dict[int, ItemT], dict[int, ItemT]]:
    """The next batch, and what is left."""
    if len(ends) <= BATCH:
        return ends, {}
    return {job_id: ends.pop(job_id) for job_id in [*ends][:BATCH]}, ends

"""Gathers what runs came to and writes it in batches: at once when nothing is being written, else in the next batch.

Settlements are kept until they are written or refused: a lost connection costs time, never a completion.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import assert_never

import anyio
import msgspec

from asyncq.domain.errors import AsyncqError, StoreUnavailable
from asyncq.domain.events import JobsReturned, SettleFailed
from asyncq.domain.job import Claim
from asyncq.domain.outcome import Ending, Outcome, Returned, Settlement, overruled, settle, words
from asyncq.domain.retry import DefaultRetry
from asyncq.engine.announcer import Announcer
from asyncq.engine.backoff import backoff_s
from asyncq.engine.observers import Observers
from asyncq.engine.run import Run
from asyncq.engine.shield import Patience, shielded
from asyncq.engine.succession import Succession
from asyncq.store import jobs as store
from asyncq.store.database import Line

BATCH = 500
FULL = 2 * BATCH
HELD_BACK = 10  # rows that others hold may be so many times as many: they delay nobody else
LATER_S = 0.1
WRITE_DEADLINE_S = 5.0  # at first; doubled, up to the next line, while no answer comes
LONGEST_DEADLINE_S = 60.0
FIRST_RETRY_S = 0.04
SLOWEST_RETRY_S = 0.5
IDLE_S = 30.0


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A run that waits to be written, with what there is to tell about it; nothing leads back to it."""

    settlement: Settlement
    worker_id: int
    run: Run | None
    outcome: Outcome
    duration_s: float


class Completer:
    """The one writer of settlements of a worker.

    Args:
        line: Its connection.
        announcer: Tells what was committed.
        observers: Told when writing fails.
        settled: Called with the settlements that were written: a queue was freed, a retry is due.
        succession: Claims the jobs that follow in their queues.
    """

    def __init__(
        self,
        line: Line,
        announcer: Announcer,
        observers: Observers,
        settled: Callable[[Iterable[Settlement]], None],
        succession: Succession,
    ) -> None:
        self._line = line
        self._announcer = announcer
        self._observers = observers
        self._settled = settled
        self._succession = succession
        self._pending: dict[int, Ended] = {}
        self._writing: dict[int, Ended] = {}
        self._held_back: dict[int, Ended] = {}
        self._later_at = 0.0
        self._patience = Patience(WRITE_DEADLINE_S, LONGEST_DEADLINE_S)
        self._stir = asyncio.Event()
        self._emptied = asyncio.Event()
        self._closing = False

    @property
    def is_full(self) -> bool:
        """Whether job loops should wait: writing does not keep up, or somebody holds very many rows."""
        return len(self._pending) + len(self._held_back) // HELD_BACK >= FULL

    @property
    def unwritten(self) -> int:
        """How many settlements are not written yet."""
        return len(self._pending) + len(self._writing) + len(self._held_back)

    async def room(self) -> None:
        """Wait until writing has caught up."""
        while self.is_full:
            self._emptied.clear()
            await self._emptied.wait()

    def hand_over(self, run: Run, outcome: Outcome) -> None:
        """Take what a run came to; it is written soon, unless a transaction of its handler has written it."""
        settlement = settle(run.claim, outcome, run.task.retry, random.random())
        duration_s = time.perf_counter() - run.started_at
        if run.settling is None or (settled := run.settling.settled) is None:
            self._add(Ended(settlement, run.worker_id, run, outcome, duration_s))
            return
        match settled:
            case "lost":
                self._announcer.lost(run)
                self._settled([])
            case "cancelled here":
                self._announcer.cancelled(run, settlement, duration_s)
                self._settled([overruled(settlement, "cancelled")])
            case "completed" | "rerun":
                self._announcer.settled(run, settlement, outcome, duration_s)
                self._settled([overruled(settlement, settled)])
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
            self._add(Ended(settlement, worker_id, None, Returned(), 0.0))
        if claims:
            self._observers.emit(JobsReturned(job_ids=tuple(claim.id for claim in claims), reason=reason))

    def _add(self, ended: Ended) -> None:
        job_id = ended.settlement.id
        if job_id in self._pending or job_id in self._held_back:
            # The same worker holds a newer claim of the same job: the older one was lost.
            older = self._pending.get(job_id) or self._held_back.pop(job_id)
            self._announcer.lost(older.run)
        self._pending[job_id] = ended
        if len(self._pending) == 1:
            self._stir.set()

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
            if self._pending:
                await self._write_batch()
                self._emptied.set()
                progress()
            else:
                await self._rest()

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
        if len(self._pending) <= BATCH:
            self._writing, self._pending = self._pending, {}
        else:
            self._writing = {job_id: self._pending.pop(job_id) for job_id in list(self._pending)[:BATCH]}
        tries = 0
        uncertain = False
        while self._writing:
            try:
                async with shielded(self._line, self._patience.deadline_s):
                    await self._write_once(uncertain)
                self._patience.answered()
            except (AsyncqError, TimeoutError) as error:
                tries += 1
                if isinstance(error, TimeoutError):
                    self._patience.lost()
                uncertain = uncertain or not isinstance(error, StoreUnavailable) or error.outcome == "unknown"
                await self._back_off(error, tries)

    async def _write_once(self, uncertain: bool) -> None:
        """Write what is in hand, by the worker id under which it was claimed; sort out what was not written.

        Args:
            uncertain: Whether an earlier try may have been committed although its answer was lost. A claim that is not
                held any more then counts as settled by it.
        """
        parts: dict[tuple[int, bool], list[Ended]] = {}
        for ended in self._writing.values():
            parts.setdefault((ended.worker_id, ended.settlement.done), []).append(ended)
        # Those that ended well come first: their queues go on.
        for (worker_id, is_done), part in sorted(parts.items(), key=itemgetter(0), reverse=True):
            await self._write_part(worker_id, part, uncertain, self._succession.room(worker_id) if is_done else 0)

    async def _write_part(self, worker_id: int, part: list[Ended], uncertain: bool, room: int) -> None:
        settlements = [ended.settlement for ended in part]
        go_on: set[str] = set()
        if room and any(settlement.queue is not None for settlement in settlements):
            written, go_on = await self._succession.settle(worker_id, settlements, room)
        else:
            written = await store.settle(self._line, worker_id, settlements)
        # Told at once: if a statement that follows fails, the next try does not find them.
        self._conclude([ended for ended in part if ended.settlement.id in written], {}, go_on)
        if missed := [settlement for settlement in settlements if settlement.id not in written]:
            await self._sort_out(worker_id, missed, uncertain)

    async def _sort_out(self, worker_id: int, missed: list[Settlement], uncertain: bool) -> None:
        """Settlements that were not written: special ones, rows that others hold, claims that were lost."""
        special = await store.settle_special(self._line, worker_id, missed)
        self._conclude([self._writing[job_id] for job_id in special], special)
        missed = [settlement for settlement in missed if settlement.id not in special]
        later = await store.still_held(self._line, worker_id, missed) if missed else set[int]()
        for job_id in later:
            self._held_back[job_id] = self._writing.pop(job_id)
            self._later_at = time.perf_counter() + LATER_S
        gone = [self._writing[settlement.id] for settlement in missed if settlement.id not in later]
        self._conclude(gone, {}, written=uncertain)

    def _conclude(
        self, part: list[Ended], endings: dict[int, Ending], go_on: Collection[str] = (), *, written: bool = True
    ) -> None:
        """It is known what became of these."""
        changes: list[Settlement] = []
        for ended in part:
            settlement = ended.settlement
            del self._writing[settlement.id]
            ending = endings.get(settlement.id)
            self._announce(ended, ending, written)
            if settlement.queue not in go_on:
                changes.append(settlement if ending is None else overruled(settlement, ending))
        if part:
            self._settled(changes)

    def _announce(self, ended: Ended, ending: Ending | None, written: bool) -> None:
        """Tell what was committed, once it is known.

        Without an answer that said so, a job counts as cancelled if this worker was told before.
        """
        run = ended.run
        if not written:
            self._announcer.lost(run)
        elif ending == "cancelled" or (ending is None and run is not None and run.cancelled):
            self._announcer.cancelled(run, ended.settlement, ended.duration_s)
        else:
            self._announcer.settled(run, ended.settlement, ended.outcome, ended.duration_s)

    async def _back_off(self, error: Exception, tries: int) -> None:
        wait_s = backoff_s(tries, FIRST_RETRY_S, SLOWEST_RETRY_S)
        self._observers.emit(SettleFailed(count=self.unwritten, error=words(error), retry_in_s=wait_s))
        await anyio.sleep(wait_s)

    def abandoned(self) -> tuple[int, ...]:
        """The jobs whose settlements were never written."""
        return tuple(sorted({*self._pending, *self._writing, *self._held_back}))

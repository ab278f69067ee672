"""Writes the ends of runs in batches: immediately when no batch is being written, else with the next one.

The cost of a batch depends little on its size. So when very many runs complete, or handlers hold the event loop, ends
are gathered for some milliseconds first. The end of a partition's job is written immediately, with all others.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import assert_never

import anyio
from msgspec.structs import replace

from asyncq.domain.codec import Envelopes
from asyncq.domain.errors import AsyncqError
from asyncq.domain.events import PartitionBackedOff, SettleFailed
from asyncq.domain.outcome import (
    Completed,
    Ending,
    Expired,
    Outcome,
    Settlement,
    completion,
    error_text,
    overruled,
    settle,
)
from asyncq.domain.time_limit import read_extras
from asyncq.engine.base.backoff import backoff_s
from asyncq.engine.base.observers import Observers
from asyncq.engine.base.outage import Outage
from asyncq.engine.base.pace import Pace
from asyncq.engine.base.shield import shielded
from asyncq.engine.run.results import Results
from asyncq.engine.run.run import Run
from asyncq.engine.run.transactions import Settled
from asyncq.engine.settle.claim_next import ClaimNext
from asyncq.engine.settle.outbox import Ended, Outbox
from asyncq.engine.settle.reporter import Reporter
from asyncq.store import settle as store
from asyncq.store.database import ReconnectingConnection
from asyncq.store.failures import is_unknown
from asyncq.store.sizes import first_piece
from asyncq.store.workers import is_known

FIRST_RETRY_S = 0.04
SLOWEST_RETRY_S = 0.5
IDLE_S = 30.0
# At MANY ends a second they are gathered for GATHER_S, or until they are ENOUGH.
MANY = 2_000
GATHER_S = 0.004
ENOUGH = 50

_worker_id = attrgetter("worker_id")


class Completer:
    """The only writer of a worker's settlements; `settled` is called with written ones: a partition may have room.

    `look` is called after an end of a job for which other jobs wait.

    `keeps_errors` says whether failed attempts are recorded; `envelopes` may encode their errors.
    """

    def __init__(
        self,
        line: ReconnectingConnection,
        outbox: Outbox,
        observers: Observers,
        reporter: Reporter,
        claim_next: ClaimNext,
        *,
        settled: Callable[[Iterable[Settlement]], None],
        look: Callable[[], None],
        results: Results,
        keeps_errors: bool,
        envelopes: Envelopes | None,
    ) -> None:
        self._line = line
        self._outbox = outbox
        self._observers = observers
        self._reporter = reporter
        self._claim_next = claim_next
        self._settled = settled
        self._look = look
        self._results = results
        self._keeps_errors = keeps_errors
        self._envelopes = envelopes
        self._pace = Pace()
        self._outage = Outage("writing results of jobs", observers.emit)
        self._closing = False

    def hand_over(self, run: Run, outcome: Outcome) -> None:
        """Take the outcome of a run, to be written soon, unless its handler's transaction has written it."""
        run.ended_at = time.perf_counter()
        self._outbox.ended(run)
        if run.settling is not None and run.settling.settled is not None:
            self._told_by_handler(run, outcome, run.settling.settled)
        elif type(outcome) is Completed and not run.cancelled and not _is_special(run, outcome):
            outbox = self._outbox
            run.keep(outcome.result)
            if _is_awaited(run):
                outbox.put(self._rest_of(run))
                return
            outbox.put_well(run)
            if len(outbox.well) in (1, ENOUGH) or run.claim.partition is not None:
                outbox.changed.set()
        else:
            settlement = settle(run.claim, outcome, run.task.retry, random.random(), run.ended_at)
            if type(outcome) is not Expired:
                kind = settlement.kind if self._keeps_errors else None
                settlement = replace(settlement, kind=kind, duration_s=run.duration_s)
            self._outbox.put(Ended(settlement, run.worker_id, run, outcome))

    def _told_by_handler(self, run: Run, outcome: Outcome, settled: Settled) -> None:
        settlement = settle(run.claim, outcome, run.task.retry, random.random(), run.ended_at)
        match settled:
            case "lost":
                self._reporter.lost(run)
                self._settled([])
            case "cancelled here":
                self._reporter.cancelled(run, settlement, outcome)
                self._settled([overruled(settlement, "cancelled")])
            case "completed" | "rerun":
                self._reporter.settled(run, settlement, outcome)
                self._settled([settlement if settled == "completed" else overruled(settlement, "rerun")])
            case _:
                assert_never(settled)

    def close(self) -> None:
        """Let `run` return when all ends are written."""
        self._closing = True
        self._outbox.changed.set()

    async def run(self, progress: Callable[[], None]) -> None:
        """Write until `close`, and then until nothing is left; `progress` is called after each batch."""
        outbox = self._outbox
        while not (self._closing and not outbox.unwritten):
            outbox.changed.clear()
            outbox.retry_held_back()
            if outbox.well or outbox.pending:
                if self._has_time():
                    # The end of a partition's job, or a failure, ends the wait for more ends.
                    with anyio.move_on_after(GATHER_S):
                        await outbox.changed.wait()
                await self._write_batch()
                outbox.emptied.set()
                progress()
            else:
                await self._rest()

    def _has_time(self) -> bool:
        """Return whether to gather more ends first: very many runs complete, and no partition waits for one of them."""
        pace = self._pace.look(time.perf_counter(), self._outbox.ended_well)
        if pace < MANY or self._closing or self._outbox.pending or len(self._outbox.well) >= ENOUGH:
            return False
        return all(run.claim.partition is None for run in self._outbox.well.values())

    async def _rest(self) -> None:
        """Wait for an end to write; an idle worker closes its connection."""
        retry_in_s = self._outbox.retry_in_s
        with anyio.move_on_after(IDLE_S if retry_in_s is None else retry_in_s) as scope:
            await self._outbox.changed.wait()
        if scope.cancelled_caught and self._outbox.retry_in_s is None:
            await self._line.rest()

    async def _write_batch(self) -> None:
        self._outbox.take_batch()
        tries = 0
        uncertain = False
        while self._outbox.writing_well or self._outbox.writing:
            try:
                async with shielded(self._line):
                    await self._write_once(uncertain)
                self._outage.over()
            except AsyncqError as error:
                tries += 1
                uncertain = uncertain or is_unknown(error)
                await self._back_off(error, tries)

    async def _write_once(self, uncertain: bool) -> None:
        """Write the batch, grouped by the worker id of the claims.

        It is uncertain if an earlier try may have been committed, but its answer was lost. Then a claim that has ended
        counts as settled by that try, unless a rescue has declared the worker dead.
        """
        # Completed jobs first, because their partitions wait. Those that cannot be written join the others.
        for worker_id, group in groupby([*self._outbox.writing_well.values()], _worker_id):
            # In two statements: the one that claims the next jobs of partitions cannot settle jobs in batches.
            for runs in self._by_kind([*group]):
                await self._write_pieces(worker_id, runs)
        for worker_id, group in groupby([*self._outbox.writing.values()], _worker_id):
            part = [*group]
            while part:
                piece = first_piece(part, len(part), _size)
                await self._write_rest(worker_id, piece, uncertain)
                part = part[len(piece) :]

    def _by_kind(self, runs: list[Run]) -> list[list[Run]]:
        """Split runs into those with a next job in a partition, and the others; leaves out an empty part."""
        has_followers = self._outbox.has_followers
        serial = [run for run in runs if has_followers(run.claim)]
        plain = [run for run in runs if not has_followers(run.claim)] if serial else runs
        return [kind for kind in (serial, plain) if kind]

    async def _write_pieces(self, worker_id: int, runs: list[Run]) -> None:
        """Write completed jobs, in several statements if their results are large."""
        if not any(run.is_kept for run in runs):
            await self._write_well(worker_id, runs, None)
            return
        while runs:
            piece = [*first_piece(runs, len(runs), _result_size)]
            kept = {run.claim.id: store.Past(run.duration_s, run.result) for run in piece}
            await self._write_well(worker_id, piece, kept)
            runs = runs[len(piece) :]

    async def _write_well(self, worker_id: int, runs: list[Run], kept: store.Kept) -> None:
        """Write completed jobs; either all or none have a next job in a partition."""
        claims = [run.claim for run in runs]
        go_on: set[int] = set()
        if self._outbox.has_followers(runs[0].claim) and (room := await self._claim_next.room(worker_id)):
            written, go_on = await self._claim_next.settle(worker_id, claims, kept, room)
        else:
            written = await store.complete(self._line, worker_id, claims, kept)
        # Before the next statement: if that fails, the next try would not find these claims.
        self._conclude_well(runs, written, go_on)

    async def _write_rest(self, worker_id: int, part: Sequence[Ended], uncertain: bool) -> None:
        """Write all other ends. A job that another transaction locks is put off; a lost claim may be uncertain."""
        await self._back_off_partitions(worker_id, [ended.settlement for ended in part if ended.settlement.backs_off])
        endings = await store.settle_rest(self._line, worker_id, [self._written(ended) for ended in part])
        if None in endings:
            self._look()
        by_ending: defaultdict[Ending, list[Ended]] = defaultdict(list)
        for ended in part:
            by_ending[endings[ended.settlement.id]].append(ended)
        self._outbox.put_off(by_ending.pop("held", []), uncertain=uncertain)
        lost = by_ending.pop("lost", [])
        for ending, those in by_ending.items():
            self._conclude(those, ending)
        in_doubt = [ended for ended in lost if uncertain or ended.uncertain]
        if in_doubt and await is_known(self._line, worker_id):
            # An earlier try was committed, but its answer was lost. A run that was cancelled here ended as cancelled.
            for ended in in_doubt:
                is_cancelled = type(ended.outcome) is Expired or (ended.run is not None and ended.run.cancelled)
                self._conclude([ended], "cancelled" if is_cancelled else "written")
            lost = [ended for ended in lost if not (uncertain or ended.uncertain)]
        self._conclude(lost, "lost")

    async def _back_off_partitions(self, worker_id: int, asking: Sequence[Settlement]) -> None:
        """Let partitions wait whose jobs asked for it, before these jobs are settled and another one could start."""
        if not asking:
            return
        delays_s = [settlement.delay_s or 0.0 for settlement in asking]
        for done in await store.back_off(self._line, worker_id, asking, delays_s):
            self._observers.emit(
                PartitionBackedOff(limit=done.limit, key=done.key, until=done.until, job_id=done.job_id)
            )

    def _written(self, ended: Ended) -> Settlement:
        """The settlement as it is stored: a codec may encode the error."""
        settlement, run = ended.settlement, ended.run
        if self._envelopes is None or settlement.error is None or run is None:
            return settlement
        return replace(settlement, error=self._envelopes.seal_error(run.task.name, settlement.error))

    def _conclude_well(self, runs: list[Run], written: set[int], go_on: Collection[int]) -> None:
        """Report the written ends, and let `settle_rest` write the others."""
        for run in runs:
            del self._outbox.writing_well[run.claim.id]
            if run.claim.id not in written:
                self._outbox.writing[run.claim.id] = self._rest_of(run)
        if len(written) < len(runs):
            runs = [run for run in runs if run.claim.id in written]
        if runs:
            self._reporter.ended_well(runs)
        # A partition with a new claim has no more room than before.
        if ended := [run.claim for run in runs if run.claim.partition not in go_on]:
            self._settled([completion(claim) for claim in ended if claim.partition is not None])

    def _conclude(self, part: list[Ended], ending: Ending) -> None:
        for ended in part:
            del self._outbox.writing[ended.settlement.id]
            if ending == "lost":
                self._reporter.lost(ended.run)
            elif ending == "cancelled":
                self._reporter.cancelled(ended.run, ended.settlement, ended.outcome)
            else:
                self._reporter.settled(ended.run, ended.settlement, ended.outcome)
        if part:
            self._settled([overruled(ended.settlement, ending) for ended in part])

    def _rest_of(self, run: Run) -> Ended:
        """The end of a completed run for `settle_rest`: a client may have begun to wait for its result."""
        outcome = Completed(run.result)
        if run.value is not None:
            outcome = self._results.written(run, run.value, tells=False)
        rest = completion(run.claim, duration_s=run.duration_s, result=outcome.result, fault=outcome.fault)
        return Ended(rest, run.worker_id, run, Completed())

    async def _back_off(self, error: Exception, tries: int) -> None:
        wait_s = backoff_s(tries, FIRST_RETRY_S, SLOWEST_RETRY_S)
        event = SettleFailed(
            count=self._outbox.unwritten, error=error_text(error), retry_in_s=wait_s, failures=self._outage.failed()
        )
        self._observers.emit(event)
        await anyio.sleep(wait_s)


def _is_awaited(run: Run) -> bool:
    """Return whether `settle_completed` would leave the job, because other jobs waited for it when it was claimed."""
    return run.claim.extras is not None and read_extras(run.claim.extras).awaited


def _is_special(run: Run, outcome: Completed) -> bool:
    """Return whether `settle_completed` would leave the job, because it is kept or awaited by its own options.

    It cannot write the reason why a result is refused either.
    """
    return run.is_kept and (run.claim.extras is not None or outcome.fault is not None)


def _size(ended: Ended) -> int:
    return len(ended.settlement.payload or "") + len(ended.settlement.result or "")


def _result_size(run: Run) -> int:
    return len(run.result or "")

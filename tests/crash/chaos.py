"""Chaos by seed: worker processes under load, while what can be broken is broken; a seed deals its blows again."""

import itertools
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import asyncpg
import pytest

from asyncq import Client, JobSpec, StoreError
from asyncq.server import Server, start
from asyncq.testing.schema import MARK
from tests.crash import chaos_worker, claims, ledger
from tests.crash.blows import DECK, Blows
from tests.crash.chaos_worker import BURSTS, CONCURRENCY, CROWDS, KINDS, LIMITED, items_of, kind_of, result_of, spec_of
from tests.crash.claims import SERIAL, UNSETTLED, WIDE
from tests.crash.crew import Crew, crew_of
from tests.crash.orders import Operator
from tests.crash.trees import Trees
from tests.crash.watch import GAPS, HISTORY, TIMES, Watch, ask, left_behind, wait_for_rest, wait_for_the_end
from tests.support.disk import roomy_folder

SCHEMA = "asyncq"
QUEUES = (*[None] * 9, *SERIAL[:2], WIDE)
AT_ONCE = 6
SINGLES = 8_000_000  # from here on they are numbered, all of the first kind
LULL, LULL_S = 10 * AT_ONCE, 0.2
CROWD = 4 * AT_ONCE
BURST = 20
PAUSE_S = 0.025
PATIENCE_S = 20
BILLION = 1_000_000_000


class Chaos:
    """A server, workers, a client that adds jobs, an operator, injected faults, and a check of the store's laws.

    Args:
        server: The server; it is killed.
        crew: The workers.
        seed: Decides which faults are injected.
        deck: How often each fault occurs in one shuffled deck.

    Attributes:
        due: Jobs whose add was committed, and when they are due by the clock of the schema.
        blows: The injected faults; set once they begin.
        unfinished: Some of the jobs that had not ended long after the last blow.
        unsettled: What is still counted, or was to be looked at, long after all jobs had ended.
        waits: Jobs whose result is awaited, and their ends; None until then.
        watch: Checks the laws of the store all the time.
        operator: Pauses, resumes and changes limits.
        trees: Adds jobs that wait for others.
    """

    blows: Blows

    def __init__(self, server: Server, crew: Crew, seed: int, deck: Mapping[str, int]) -> None:
        self._server = server
        self._deck = deck
        self._chance = random.Random(seed)
        self.crew = crew
        self.due: dict[int, int] = {}
        self.unfinished: list[str] = []
        self.unsettled: list[str] = []
        self.waits: dict[int, str | None] = {}
        self.watch = Watch(server.dsn)
        self.operator = Operator(server.dsn, random.Random(seed + 1))
        self.trees = Trees(server.dsn, random.Random(seed + 2), self.due)

    async def reign(self, seconds: float) -> None:
        """Deal blows for so long, then let all jobs end, and the workers stop in order."""
        await self.crew.start()
        async with Client(self._server.dsn) as waiting, anyio.create_task_group() as group:
            group.start_soon(self.watch.look_for_ever)
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(self.crew.replace_for_ever)
                async with anyio.create_task_group() as inner:
                    inner.start_soon(self._add_for_ever, partial(group.start_soon, self._wait, waiting))
                    inner.start_soon(self.operator.order_for_ever, inner)
                    inner.start_soon(self.trees.add_for_ever)
                    self.blows = Blows(self._server, SCHEMA, self.crew, self._chance, inner, self._deck)
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        await anyio.sleep(self._chance.uniform(0.1, 0.8))
                        await self.blows.next()
                    inner.cancel_scope.cancel()
                for place in self.crew.places:
                    if place.link is not None:
                        place.link.mend()
                await self.operator.restore()
                # For as long as their number falls: the longer it reigned, the more jobs wait for a rate.
                self.unfinished = await wait_for_the_end(self._server.dsn, PATIENCE_S)
                self.unsettled = await wait_for_rest(self._server.dsn, UNSETTLED, PATIENCE_S)
                async with self.crew.change:
                    keeping.cancel_scope.cancel()
            await self.crew.dismiss()
            with anyio.move_on_after(PATIENCE_S):
                while None in self.waits.values():
                    await anyio.sleep(0.1)
            group.cancel_scope.cancel()

    async def _wait(self, client: Client, number: int, job_id: int) -> None:
        """Wait for the end of a job."""
        self.waits[number] = None
        ended = await client.wait_for(job_id)
        self.waits[number] = f"{ended.state} {ended.result}"

    async def _add_for_ever(self, wait: Callable[[int, int], object]) -> None:
        """A few in each call; every fifth job is due a little later. Now and then, after a lull, some alone.

        The results of some jobs that are kept are awaited.
        """
        async with Client(self._server.dsn) as client:
            for first in itertools.count(step=AT_ONCE):
                jobs = {number: self._job(number) for number in range(first, first + AT_ONCE)}
                while first not in self.due:
                    try:
                        added = await client.add_jobs([spec for spec, _ in jobs.values()])
                    except StoreError:
                        await anyio.sleep(0.05)
                    else:
                        self.due |= {number: due for number, (_, due) in jobs.items()}
                        for number, job in zip(jobs, added, strict=True):
                            if kind_of(number) == "kept":
                                self.trees.known.append(job.id)
                                if number % 3:
                                    wait(number, job.id)
                await anyio.sleep(PAUSE_S)
                if first % CROWD == 0:
                    await self._add_crowd(client, CROWDS + first)
                if first % LULL == 0:
                    await self._add_burst(client, first)
                    await anyio.sleep(LULL_S)
                    await self._add_alone(client, SINGLES + first * len(KINDS))

    async def _add_crowd(self, client: Client, first: int) -> None:
        """Add jobs without an idempotency key, so that they are claimed in batches.

        Those of a failed add may run or not.
        """
        numbers = range(first, first + CROWD)
        with suppress(StoreError):
            added = await client.add_jobs([chaos_worker.crowd.job(number) for number in numbers])
            self.trees.known.extend(job.id for job in added)
            self.due |= dict.fromkeys(numbers, 0)

    async def _add_burst(self, client: Client, first: int) -> None:
        """Add more jobs of one task than its limit allows at once. Those of a failed add may run or not."""
        of_kind = len(KINDS) - len(LIMITED) + first // LULL % len(LIMITED)
        numbers = range(BURSTS + first * len(KINDS) + of_kind, BURSTS + (first + BURST) * len(KINDS), len(KINDS))
        with suppress(StoreError):
            await client.add_jobs([spec_of(number) for number in numbers])
            self.due |= dict.fromkeys(numbers, 0)

    async def _add_alone(self, client: Client, first: int) -> None:
        """Add jobs without an idempotency key, so that they are handed off. Those of a failed add may run or not."""
        for number in range(first, first + 5 * len(KINDS), len(KINDS)):
            with suppress(StoreError):
                await client.add_job(chaos_worker.note, number)
                self.due[number] = 0
            await anyio.sleep(PAUSE_S)

    def _job(self, number: int) -> tuple[JobSpec, int]:
        queue = QUEUES[number // len(KINDS) % len(QUEUES)]
        spec = spec_of(number).with_options(idempotency_key=str(number), queue=queue)
        if number % 5:
            return spec, 0
        moves = self.blows.moves if hasattr(self, "blows") else []
        ahead = timedelta(microseconds=moves[-1][1] // 1000) if moves else timedelta()
        at = datetime.now(UTC) + ahead + timedelta(seconds=random.uniform(0, 1.5))
        return spec.with_options(run_at=at), round(at.timestamp() * 1e6) * 1000

    # The checks

    def numbers(self, *kinds: str) -> list[int]:
        """The committed jobs of some kinds."""
        return [number for number in self.due if kind_of(number) in kinds]

    async def verdict(self) -> dict[str, object]:
        """Everything that must not be, by its name; empty lists if all was kept."""
        runs, fates = self.crew.runs(), self.crew.fates
        plain = {*self.numbers("note", "kept", "crowd", "split", "swept", "tip", "join", *LIMITED)}
        notes = {*self.numbers("note", "kept", "crowd", "split", "swept")}
        attempts = [run for run in runs if kind_of(run.number) != "crowd"]  # whose attempts are not known
        wrong: dict[str, object] = {
            "unfinished": self.unfinished,
            "unsettled": self.unsettled,
            "violations": sorted(self.watch.violations),
            "never ran": ledger.never_ran(plain, runs),
            "overlapping": ledger.overlapping(runs, fates, SERIAL),
            "repeated": [*ledger.repeated([run for run in runs if run.number in notes], fates)],
            "early": ledger.early(runs, self.due, self.blows.moves),
            "uncounted attempts": [*ledger.uncounted(attempts, fates, {*self.numbers("pay")})],
            "deserters": self.crew.deserters,
            "recurring slots": [row[0] for row in await ask(self._server.dsn, GAPS)],
            "left": await left_behind(self._server.dsn),
            **await claims.broken_laws(self._server.dsn),
        }
        for kind in ("pay", "book"):
            times = await self.times(kind)
            wrong[f"not exactly once: {kind}"] = {n: times[n] for n in {*self.numbers(kind), *times} if times[n] != 1}
        if (lost := ledger.lost_starts(runs)) > CONCURRENCY * self.blows.hits.total():
            wrong["attempts that never began"] = lost
        history = defaultdict[int, list[str]](list)
        for number, result in await ask(self._server.dsn, HISTORY):
            history[number].append(result)
        wrong["not once in the history"] = {
            number: history[number]
            for number in self.numbers("kept", "crowd")
            if history[number] != [f"completed {result_of(number)}"]
        }
        wrong["not the end that was awaited"] = {
            number: end for number, end in self.waits.items() if end != f"completed {result_of(number)}"
        }
        tips = await self.times("tip")
        wrong["never done: tip"] = [number for number in self.numbers("tip") if not tips[number]]
        done = await self.times("split")
        items = [item for number in self.numbers("split") for item in items_of(number)]
        wrong["never done: item"] = [item for item in items if not done[item]]
        return wrong

    async def times(self, kind: str) -> Counter[int]:
        """How often each job of a kind has had its effect."""
        return Counter(dict(await ask(self._server.dsn, TIMES, kind)))

    async def summary(self) -> dict[str, object]:
        """The figures of this run."""
        cuts = Counter({"commit": 0})
        for place in self.crew.places:
            if place.link is not None:
                cuts["commit"] += sum(place.link.cuts.values())
        tips = await self.times("tip")
        runs = self.crew.runs()
        return {
            "jobs": len(self.due),
            "runs": len(runs),
            "crowd": sum(kind_of(run.number) == "crowd" for run in runs),
            "awaited": len(self.waits),
            **self.trees.counts,
            "doubled_tips": sum(tips.values()) - len(tips),
            "lost_starts": ledger.lost_starts(runs),
            "slots": len(await ask(self._server.dsn, "select from chaos.slots")),
            "violations": len(self.watch.violations),
            "looks": self.watch.looks,
            "hits": dict(self.blows.hits + cuts),
            "orders": dict(self.operator.given),
            **await claims.starts(self._server.dsn),
        }


@contextmanager
def server_to_kill() -> Iterator[Server]:
    """A server that a test may kill, in a folder with room; nothing of it is left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", roomy_folder())
        made = start(settings={"max_wal_size": "128MB"})
    with made:
        yield made

    assert not made.folder.exists()


@asynccontextmanager
async def chaos_on(server: Server, folder: Path, seed: int, deck: Mapping[str, int] = DECK) -> AsyncIterator[Chaos]:
    """Everything that is needed, on an empty server."""
    await Client(server.dsn, schema=SCHEMA).migrate()
    connection = await asyncpg.connect(server.dsn)
    await connection.execute(f"comment on schema {SCHEMA} is '{MARK}'")
    await chaos_worker.create_tables(connection)
    await claims.open_ledger(connection)
    await connection.close()
    chance = random.Random(seed)
    async with crew_of(server.dsn, folder, chance) as crew:
        yield Chaos(server, crew, seed, deck)

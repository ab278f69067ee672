"""The trees of the chaos suite: jobs that wait for others, of which some are cancelled; a seed decides their shapes.

The edges are recorded in the transaction of the add, for the ledger of claims.
"""

import itertools
import random
from collections import Counter, deque
from collections.abc import Iterable

import anyio
import asyncpg

from asyncq import Added, Client, JobSpec, StoreError
from asyncq.domain.after import IfFailed
from tests.crash.chaos_worker import JOINS, KEPT, KINDS, TREES, join, spec_of
from tests.crash.claims import SERIAL, WIDE
from tests.crash.watch import BROKEN

EDGE = "insert into chaos.edges (waiter, job_id, runs_anyhow) select $1, unnest($2::bigint[]), $3"
# The kinds of jobs in a tree; those that pay leave an effect, which the last job looks for.
PAYING = ("pay", "book", "tip")
MEMBERS = (*PAYING, "note", "kept", "swept", "keyed", "left")
QUEUES = (None, None, None, SERIAL[0], WIDE)
WORDS: tuple[IfFailed, ...] = ("wait", "cancel", "run")
WIDTH = 20  # the most jobs of a tree
PAUSE_S = 0.1
CALL_S = 10


class Trees:
    """Adds one tree after the other: some first jobs, one that waits for half of them, jobs behind it, and a last one.

    Args:
        dsn: The server.
        chance: The source of all random choices.
        due: Where the numbers of jobs are recorded that have to complete.

    Attributes:
        known: Ids of other jobs that are kept; some trees wait for one of them.
        counts: How many trees were committed, and how many of these had a job that was cancelled.
    """

    def __init__(self, dsn: str, chance: random.Random, due: dict[int, int]) -> None:
        self._dsn = dsn
        self._chance = chance
        self._due = due
        self._connection: asyncpg.Connection | None = None
        self.known: deque[int] = deque(maxlen=40)
        self.counts: Counter[str] = Counter()

    async def add_for_ever(self) -> None:
        """Add trees until it is cancelled."""
        async with Client(self._dsn) as client:
            try:
                for number in itertools.count():
                    await self._add(client, number)
                    await anyio.sleep(self._chance.uniform(0, 2 * PAUSE_S))
            finally:
                self._leave()

    async def _add(self, client: Client, number: int) -> None:
        """Add a tree. Without an answer to the commit, it is there or not."""
        is_cut, done = self._chance.random() < 0.3, False
        numbers = self._numbers(number)
        try:
            if self._connection is None:
                self._connection = await asyncpg.connect(self._dsn, timeout=5)
            with anyio.fail_after(CALL_S):
                async with self._connection.transaction():
                    first = await self._add_all(client, self._connection, number, numbers, is_cut=is_cut)
            done = True
        except (StoreError, *BROKEN, TimeoutError):
            return
        finally:
            if not done:
                self._leave()
        self.counts["trees"] += 1
        if is_cut:
            await self._cancel(client, first)
        else:
            self._due |= dict.fromkeys([*numbers, JOINS + number], 0)

    def _numbers(self, tree: int) -> list[int]:
        """The numbers of the jobs of a tree, except the last one: each says its kind."""
        base = TREES + tree * WIDTH * len(KINDS)
        kinds = self._chance.choices(MEMBERS, k=self._chance.randint(4, WIDTH))
        return [base + place * len(KINDS) + KINDS.index(kind) for place, kind in enumerate(kinds)]

    async def _add_all(
        self, client: Client, db: asyncpg.Connection, tree: int, numbers: list[int], *, is_cut: bool
    ) -> list[Added]:
        """Add all jobs. Returns the first ones."""
        half = len(numbers) // 2
        words = self._chance.choices(WORDS, k=3) if is_cut else ["wait"] * 3
        first = await client.add_jobs([self._spec(number) for number in numbers[:half]], connection=db)
        middle = await self._wait(client, db, [self._spec(numbers[half])], first[: half // 2 + 1], words[0])
        behind = await self._wait(client, db, [self._spec(number) for number in numbers[half + 1 :]], middle, words[1])
        others = self._chance.sample([*self.known], min(len(self.known), self._chance.choice((0, 0, 1, 3))))
        # Without the effects of jobs that may be cancelled.
        paying = [] if is_cut else [number for number in numbers if KINDS[number % len(KINDS)] in PAYING]
        last = join.job(JOINS + tree, paying)
        await self._wait(client, db, [last], [*first, *middle, *behind, *others], words[2])
        return first

    async def _wait(
        self,
        client: Client,
        db: asyncpg.Connection,
        specs: list[JobSpec],
        awaited: Iterable[Added | int],
        word: IfFailed,
    ) -> list[Added]:
        """Add jobs that wait for others, and record that."""
        ids = [job if isinstance(job, int) else job.id for job in awaited]
        added = await client.add_jobs([spec.with_options(after=ids, if_failed=word) for spec in specs], connection=db)
        await db.executemany(EDGE, [(job.id, ids, word == "run") for job in added])
        return added

    def _spec(self, number: int) -> JobSpec:
        return spec_of(number).with_options(keep=KEPT, queue=self._chance.choice(QUEUES))

    async def _cancel(self, client: Client, jobs: list[Added]) -> None:
        """Cancel one of some jobs, which may wait, run, or have ended."""
        await anyio.sleep(self._chance.choice((0.0, 0.01, 0.1)))
        try:
            await client.admin.cancel_jobs([self._chance.choice(jobs).id])
        except StoreError:
            return
        self.counts["cut trees"] += 1

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

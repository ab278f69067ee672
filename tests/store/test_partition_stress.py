"""Workers, adders, rescues and administrators at once over a few partitions: no slot is lost, none is used twice.

A checker compares counts and claims in one snapshot. ASYNCQ_STRESS_S says for how long jobs are added, and
ASYNCQ_STRESS_SEED what the players do.
"""

import contextlib
import itertools
import os
import random
from typing import Any

import anyio
import asyncpg

from tests.support.jobs import add, change, claim_next, complete, fetch
from tests.support.session import Session, session

SECONDS = float(os.environ.get("ASYNCQ_STRESS_S", "2"))
SEED = int(os.environ.get("ASYNCQ_STRESS_SEED", "1"))
QUEUES = ("a", "b", "c", "d")
TASKS = ("x", "y")
LIMITS = (1, 2, 3, 5)
THOROUGH = True
WORKERS, ADDERS = 4, 2

COUNTS = """
select held.key, counted.running, counted.jobs, coalesce(held.at_once, of_all.at_once) as most, held.set_at::text
from asyncq._partition_counts() as counted
join asyncq._partitions as held using (id)
join asyncq._limits as of_all on of_all.id = (held.id >> 48)::smallint
where held.key is not null
"""
SPLIT = """
select from asyncq._split_batches(array(
  select ctid from asyncq._batches where locked_by <> all($1::int[]) for update skip locked))
"""
RELEASE = """
select from asyncq._release(array(
  select id from asyncq._jobs
  where locked_at is not null and locked_by <> all($1::int[]) order by id for update skip locked))
"""


class Undo(Exception):
    """Rolls a transaction back."""


class Stress:
    """The players, each with a session of its own, and what the checker has seen."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.looks = self.deaths = self.ended = 0
        self.wrong: list[Any] = []
        self._dsn = dsn
        self._schema = schema
        self._tokens = itertools.count(1)
        self._numbers = itertools.count(1)
        self._is_over = False
        self._playing = WORKERS + ADDERS
        self._living: set[int] = set()

    def _session(self) -> Any:
        return session(self._dsn, self._schema, plan_cache_mode="force_generic_plan")  # as workers do

    async def add(self, player: int) -> None:
        """Add jobs in transactions that last a while, at each isolation level; some are rolled back."""
        rng = random.Random(f"{SEED} add {player}")
        async with self._session() as sql:
            while not self._is_over:
                level = rng.choice(("read_committed", "repeatable_read", "serializable"))
                with contextlib.suppress(asyncpg.SerializationError, Undo):
                    async with sql.connection.transaction(isolation=level):
                        for _ in range(rng.randint(1, 4)):
                            await self._add_one(sql, rng)
                        await anyio.sleep(rng.choice((0, 0, 0.005, 0.02)))
                        if rng.random() < 0.2:
                            raise Undo
                await anyio.sleep(rng.random() * 0.06)
        self._playing -= 1

    async def _add_one(self, sql: Session, rng: random.Random) -> None:
        run_at = rng.choice(("asyncq.now()", "asyncq.now()", "asyncq.clock() + interval '10 ms'"))
        options = {"queue": rng.choice(QUEUES), "priority": rng.choice((0, 0, 3)), "run_at": run_at}
        await add(sql, rng.choice(TASKS), max_attempts=30000, **options)

    async def work(self, player: int) -> None:
        """Be one worker after the other: most end their jobs in some way, some die with them, or within a fetch."""
        rng = random.Random(f"{SEED} work {player}")
        tasks = (TASKS, TASKS[:1], TASKS, TASKS[1:])[player]
        while not await self._is_done():
            try:
                async with self._session() as sql:
                    await self._live(sql, rng, tasks)
            except asyncpg.PostgresConnectionError:
                self.deaths += 1
        self._playing -= 1

    async def _live(self, sql: Session, rng: random.Random, tasks: tuple[str, ...]) -> None:
        number = next(self._numbers)
        self._living.add(number)
        try:
            for _ in range(rng.randint(5, 40)):
                claims = await self._claims(sql, rng, number, tasks)
                if rng.random() < 0.03:
                    self.deaths += 1
                    return
                await anyio.sleep(rng.choice((0, 0, 0.002, 0.01)))
                await self._end(sql, rng, number, tasks, claims)
        finally:
            self._living.discard(number)

    async def _claims(self, sql: Session, rng: random.Random, number: int, tasks: tuple[str, ...]) -> list[Any]:
        form, limit = rng.choice(("rows", "batched")), rng.randint(1, 8)
        options = {"worker": number, "token": next(self._tokens) * 2, "tasks": tasks, "form": form}
        if rng.random() > 0.05:
            return await fetch(sql, limit, **options)
        await sql.execute("begin")
        await fetch(sql, limit, **options)
        await sql.rows("select pg_terminate_backend(pg_backend_pid())")
        return []

    async def _end(
        self, sql: Session, rng: random.Random, number: int, tasks: tuple[str, ...], claims: list[Any]
    ) -> None:
        ways = ("complete", "complete", "one by one", "next", "fail", "return", "leave open")
        way = rng.choice(ways if not self._is_over else ways[:4])
        if way == "complete":
            self.ended += len(await complete(sql, claims, worker=number))
        elif way == "one by one":
            for claim in claims:
                self.ended += len(await complete(sql, [claim], worker=number))
        elif way == "next":
            for claim in claims:
                await sql.run("split_batch_of_claim", number, claim["id"], claim["lock_token"])
                settled, _ = await claim_next(
                    sql, [claim], worker=number, token=next(self._tokens) * 2, tasks=tasks
                )  # a next job is left, and rescued
                self.ended += len(settled)
        elif way == "fail":
            await change(sql, claims, worker=number, attempts=1, delay_s=0.01)
        elif way == "return":
            await sql.run("return_lost", number, [claim["lock_token"] for claim in claims])
        else:
            transaction = sql.connection.transaction(isolation="read_committed")
            await transaction.start()
            await complete(sql, claims, worker=number)
            await anyio.sleep(0.01)
            await (transaction.rollback() if rng.random() < 0.3 else transaction.commit())

    async def rescue(self) -> None:
        """Return the claims of workers that are gone; now and then those of all, since none has a row."""
        async with self._session() as sql:
            for turn in itertools.count(1):
                if not self._playing:
                    break
                await anyio.sleep(0.03)
                if turn % 20 == 0:
                    await sql.run("rescue_jobs", THOROUGH, None)
                async with sql.connection.transaction():
                    await sql.rows(SPLIT, [*self._living])
                    await sql.rows(RELEASE, [*self._living])

    async def administer(self) -> None:
        """Change limits, pause and resume, hold rows and roll back."""
        rng = random.Random(f"{SEED} administer")
        async with self._session() as sql:
            while not self._is_over:
                await anyio.sleep(rng.random() * 0.05)
                queue = rng.choice(QUEUES)
                act = rng.choice(("limit", "limit", "pause", "hold"))
                if act == "limit":
                    async with sql.connection.transaction():
                        await sql.rows(CHANGE, rng.choice(LIMITS), queue)
                        await sql.rows(WAKE, queue)
                elif act == "pause":
                    await sql.rows("select asyncq.pause(queue => $1)", queue)
                    await anyio.sleep(0.02)
                    await sql.rows("select asyncq.resume(queue => $1)", queue)
                else:
                    transaction = sql.connection.transaction()
                    await transaction.start()
                    await sql.rows(HOLD, queue)
                    await anyio.sleep(0.01)
                    await transaction.rollback()

    async def check(self) -> None:
        """Look every 10 ms: each count is right, and none that is over its limit rises."""
        before: dict[str, tuple[int, str | None]] = {}
        async with self._session() as sql:
            while self._playing:
                rows = await sql.rows(COUNTS)
                for key, running, jobs, most, set_at in rows:
                    if running != jobs:
                        self.wrong.append((key, "counts", jobs, "runs", running))
                    was, since = before.get(key, (0, None))
                    # One next job at most passes at the moment of the change, and none is added to those that run.
                    if running > most and since == set_at and running > max(was, most):
                        self.wrong.append((key, "allows", most, "runs", running, "ran", was))
                    before[key] = running, set_at
                self.looks += 1
                await anyio.sleep(0.01)

    async def clock(self) -> None:
        """End the adds after a while, and a death; then the workers run what is left."""
        await anyio.sleep(SECONDS)
        while not self.deaths:
            await anyio.sleep(0.05)
        self._is_over = True

    async def _is_done(self) -> bool:
        if not self._is_over:
            return False
        async with self._session() as sql:
            return not await sql.value("select exists (select from asyncq._all_jobs())")


CHANGE = """
update asyncq._partitions set at_once = $1, set_at = pg_catalog.clock_timestamp()
where id = asyncq._partition(1::smallint, $2)
"""
# As set_partition does, in a second statement: its snapshot is newer than the lock of the row.
WAKE = """
insert into asyncq._wakeups (at, partition, job_id, task_id, priority)
select head.run_at, asyncq._partition(1::smallint, $1), head.id, head.task_id, head.priority
from asyncq._heads(asyncq._partition(1::smallint, $1)) as head
"""
HOLD = """
select from asyncq._jobs where partition = asyncq._partition(1::smallint, $1) order by id limit 2
for no key update skip locked
"""


async def test_partitions_under_stress(dsn: str, sql: Session) -> None:
    """In the end no job is left, and the laws hold. A job that nobody fetches ends the test by its time limit."""
    # Two open adds that store new names in opposite orders could deadlock.
    await sql.rows("select asyncq._store_tasks($1::text[])", TASKS)
    stress = Stress(dsn, sql.schema)
    with anyio.fail_after(SECONDS + 60):
        async with anyio.create_task_group() as group:
            for player in range(WORKERS):
                group.start_soon(stress.work, player)
            for player in range(ADDERS):
                group.start_soon(stress.add, player)
            for play in (stress.rescue, stress.administer, stress.check, stress.clock):
                group.start_soon(play)
    laws = "select law, said from asyncq.violations() where law in ('wrong_count', 'over_limit', 'stranded_partition')"

    assert [] == stress.wrong[:5]
    assert [] == await sql.rows(laws)
    assert stress.looks > 0 < stress.ended
    assert stress.deaths > 0

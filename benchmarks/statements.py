"""`python -m benchmarks.statements`: the CPU of the server that single statements use beside very many waiting jobs."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from asyncq.server import available_binaries, start
from asyncq.store.arrays import array_text, sent_numbers
from asyncq.store.claim import BATCH_FROM
from asyncq.store.pruning import FIRST_KEY_LOCK
from asyncq.store.statements import DEFAULT_SCHEMA, query
from benchmarks.scale.fill import AT_ONCE, OURS, task_id
from benchmarks.scale.place import Database, connect, place

CLAIMS, BATCH, DRAINED = 100, 500, 100_000
TRIES = 7
LOOK_S = 0.1
SETTLE_S = 0.002  # the process has gone to sleep: its CPU is counted
RETENTION_S = 86400.0
DEAD_IDS = 1_000_000  # of workers that die here, behind those of all others
SERVER = {"shared_buffers": "2GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "autovacuum": "off"}

# A tenth of the jobs have a key; one in a hundred is discarded.
ADD_JOBS = """
    insert into asyncq._jobs (run_at, created_at, updated_at, task_id, attempts, key, payload)
    select now(), now(), case when number % 100 = 1 then now() - interval '2 days' else now() end, $1,
      case when number % 100 = 1 then 25 else 0 end, case when number % 10 = 0 then 'key ' || number end,
      json_build_object('id', number)
    from generate_series($2::bigint, $3::bigint - 1) as number"""
# A tenth of the ended jobs and requests, and a hundredth of the key locks, can be pruned.
ADD_OTHERS = (
    """insert into asyncq._key_locks (key, used_at)
       select hashtextextended('gate ' || number, 0), now() - interval '30 h' * (number % 100 = 0)::int
       from generate_series(1, $1::bigint) as number""",
    """insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state)
       select nextval('asyncq._jobs_id_seq'), now(), now(),
         now() + interval '1 day' * case when number % 10 = 0 then -1 else 1 end,
         (select min(id) from asyncq._tasks), 'completed'
       from generate_series(1, $1::bigint) as number""",
    """insert into asyncq._requests (keep_until, job_id, key, digest)
       select now() + interval '1 day' * case when number % 10 = 0 then -1 else 1 end, number, 'request ' || number,
         sha256(number::text::bytea)
       from generate_series(1, $1::bigint) as number""",
)
ADD_WORKER = """
    insert into asyncq._workers (id, lease, pid, concurrency, host, tasks, last_seen)
    overriding system value
    values ($1, $2::text::interval, 1, 100, 'h', array['noop'], clock_timestamp() - $3::text::interval)
    on conflict (id) do nothing"""
CLAIM_ANYWHERE = """
    update asyncq._jobs set locked_by = $1, locked_at = now(), lock_token = $2
    where id = any(array(
      select job.id from asyncq._jobs as job
      where job.id = any(array(select (random() * $3)::bigint from generate_series(1, 2 * $4::int)))
        and job.locked_by is null and job.attempts < job.max_attempts limit $4::int))"""

Act = Callable[[], Awaitable[object]]


class Case(NamedTuple):
    """A statement and its preparation.

    Attributes:
        name: The name of the row.
        statement: Its text.
        arguments: Made for each try.
        prepare: Run and committed before each try, on another connection.
    """

    name: str
    statement: str
    arguments: Callable[[], tuple[Any, ...]] = tuple
    prepare: Act | None = None


class Cost(NamedTuple):
    """CPU of the server in milliseconds: that of a session's first call, the median, and the most."""

    first: float
    median: float
    most: float
    rows: int


class Crowd:
    """A full table, dying workers, and the measured statements.

    Args:
        database: The database.
        jobs: How many jobs wait.
        helper: A connection that prepares.
    """

    def __init__(self, database: Database, jobs: int, helper: asyncpg.Connection) -> None:
        self.database = database
        self.jobs = jobs
        self.helper = helper
        self.task = 0
        self.worker = DEAD_IDS
        self.token = 1

    async def fill(self) -> None:
        """Add the jobs, a tenth as many key locks, ended jobs and requests, and a worker with claims."""
        self.task = await task_id(self.database, OURS)
        for begin in range(0, self.jobs, AT_ONCE):
            await self.helper.execute(ADD_JOBS, self.task, begin, min(begin + AT_ONCE, self.jobs))
        for text in ADD_OTHERS:
            await self.helper.execute(text, self.jobs // 10)
        await self.helper.execute(ADD_WORKER, 1, "10 days", "0")
        await self.claim(1, CLAIMS, None)
        await self.claim(1, BATCH, BATCH_FROM)
        await self.helper.execute("vacuum analyze")
        await self.helper.execute("checkpoint")
        await self.helper.fetch(query("watch_workers", DEFAULT_SCHEMA), 1)
        # Until the return window of the server has passed nobody is dead.
        await self.helper.execute("update asyncq._server_runs set since = since - interval '1 min'")
        while await self.helper.fetchval("select asyncq._has_just_returned()"):
            await asyncio.sleep(LOOK_S)

    async def claim(self, worker: int, limit: int, batch_from: int | None) -> list[int]:
        """Claim the first jobs as a worker does, in their rows or as a batch; returns their ids."""
        self.token += 1
        tasks = array_text([self.task])
        arguments = (worker, self.token, limit, tasks, *[None] * 6, batch_from, "{}", False)
        rows = await self.helper.fetch(query("fetch_jobs", DEFAULT_SCHEMA), *arguments)
        return [
            number
            for row in rows
            for number in ([row["id"]] if row["ids"] is None else sent_numbers(row["ids"], "q"))
            if number is not None
        ]

    async def drain(self) -> None:
        """Run jobs that are claimed in their rows, by the worker that dies next: dead entries have its id."""
        self.worker += 1
        await self.helper.execute(ADD_WORKER, self.worker, "10 days", "0")
        for _ in range(DRAINED // BATCH):
            ids = sorted(await self.claim(self.worker, BATCH, None))
            tokens = array_text([self.token] * len(ids))
            await self.helper.fetch(
                query("settle_completed", DEFAULT_SCHEMA), self.worker, array_text(ids), tokens, None, None
            )

    async def die(self, limit: int, batch_from: int | None = None, *, anywhere: bool = False) -> None:
        """Let a worker have claims and be dead: the last one, unless a rescue has removed it."""
        known = "select exists (select from asyncq._workers where id = $1)"
        if not await self.helper.fetchval(known, self.worker):
            self.worker += 1
        await self.helper.execute(ADD_WORKER, self.worker, "1 s", "1 day")
        if anywhere:
            self.token += 1
            await self.helper.execute(CLAIM_ANYWHERE, self.worker, self.token, self.jobs, limit)
        else:
            await self.claim(self.worker, limit, batch_from)
        await self.helper.execute(
            "update asyncq._workers set lease = '1 s', last_seen = clock_timestamp() - interval '1 day' where id = $1",
            self.worker,
        )

    def by_itself(self) -> list[Case]:
        """The statements that workers run by themselves."""
        tasks = array_text([self.task])
        mine = lambda: (self.worker, [self.token])  # noqa: E731
        rescue = query("rescue_jobs", DEFAULT_SCHEMA)
        return [
            Case("rescue, 100 claims", rescue, lambda: (False, True), lambda: self.die(CLAIMS)),
            Case("rescue, 100 claims anywhere", rescue, lambda: (False, True), lambda: self.die(CLAIMS, anywhere=True)),
            Case("rescue, 1,000 claims", rescue, lambda: (False, True), lambda: self.die(10 * CLAIMS)),
            Case("rescue, a batch of 500", rescue, lambda: (False, True), lambda: self.die(BATCH, BATCH)),
            Case("rescue, 1 claim", rescue, lambda: (False, True), lambda: self.die(1)),
            Case("rescue, nobody dead", rescue, lambda: (False, True)),
            Case("thorough rescue, nobody dead", rescue, lambda: (True, True)),
            Case("end_transactions", query("end_transactions", DEFAULT_SCHEMA)),
            Case("return_lost, 100 claims", query("return_lost", DEFAULT_SCHEMA), mine, lambda: self.die(CLAIMS)),
            Case("still_claimed", query("still_claimed", DEFAULT_SCHEMA), mine),
            Case("unknown_tasks", query("unknown_tasks", DEFAULT_SCHEMA), lambda: (tasks,)),
            Case("prune, 500 of each", query("prune", DEFAULT_SCHEMA), lambda: (RETENTION_S, RETENTION_S, BATCH)),
            Case("prune_key_locks, 500", query("prune_key_locks", DEFAULT_SCHEMA), lambda: (FIRST_KEY_LOCK, BATCH)),
            Case("next_due", query("next_due", DEFAULT_SCHEMA), lambda: (*[None] * 7,)),
            Case("beat", query("beat", DEFAULT_SCHEMA), lambda: (1, False, ["1/1"], "{}")),
            Case("watch_workers", query("watch_workers", DEFAULT_SCHEMA), lambda: (1,)),
            Case("find_worker", query("find_worker", DEFAULT_SCHEMA), lambda: (1,)),
            Case("go_on_call", query("go_on_call", DEFAULT_SCHEMA), lambda: (True,)),
            Case("breaking_since", query("breaking_since", DEFAULT_SCHEMA), lambda: (1,)),
            Case("stored_items", query("stored_items", DEFAULT_SCHEMA), lambda: ([OURS], [OURS])),
            Case("holders", query("holders", DEFAULT_SCHEMA), lambda: (60.0, 100_000, 5)),
            Case("dead_rows", query("dead_rows", DEFAULT_SCHEMA)),
        ]

    def when_asked(self) -> list[Case]:
        """The statements that people run."""
        listing = query("find_jobs", DEFAULT_SCHEMA)
        return [
            Case("list_workers", query("list_workers", DEFAULT_SCHEMA)),
            Case(
                "force_unlock_workers, 100 claims",
                query("force_unlock_workers", DEFAULT_SCHEMA),
                lambda: ([str(self.worker)],),
                lambda: self.die(CLAIMS),
            ),
            Case("counts()", query("counts", DEFAULT_SCHEMA), lambda: (False,)),
            Case("find_jobs by a flag that none has", listing, lambda: ('{"flag": "rare"}', None, True, 100, 10_000)),
            Case("find_jobs, a page", listing, lambda: ("{}", None, True, 100, 10_000)),
        ]

    def of_all(self) -> list[Case]:
        """The statements that read all jobs."""
        cleanup = query("cleanup", DEFAULT_SCHEMA)
        return [
            Case("violations()", query("violations", DEFAULT_SCHEMA)),
            Case("counts(exact=True)", query("counts", DEFAULT_SCHEMA), lambda: (True,)),
            Case("cleanup of task identifiers", cleanup, lambda: (["GC_TASK_IDENTIFIERS"], [OURS])),
            Case("count(*) of jobs", "select count(*) from asyncq.jobs"),
        ]


async def measured(database: Database, cases: Sequence[Case], tries: int) -> dict[str, Cost]:
    """Each statement on a fresh session, some times; each try is committed."""
    found: dict[str, Cost] = {}
    for case in cases:
        connection = await connect(database.dsn)
        await connection.execute("set max_parallel_workers_per_gather = 0")  # all CPU is that of one process
        backend = await connection.fetchval("select pg_catalog.pg_backend_pid()")
        spent: list[float] = []
        rows = 0
        for _ in range(tries):
            if case.prepare is not None:
                await case.prepare()
            await asyncio.sleep(SETTLE_S)
            before = cpu_ms(backend)
            rows = len(await connection.fetch(case.statement, *case.arguments()))
            await asyncio.sleep(SETTLE_S)
            spent.append(cpu_ms(backend) - before)
        await connection.close()
        found[case.name] = Cost(spent[0], statistics.median(spent), max(spent), rows)
        print(f"{case.name:<36}{spent[0]:>9.2f}{found[case.name].median:>9.2f}{max(spent):>9.2f}{rows:>6}", flush=True)
    return found


def cpu_ms(pid: int, proc: Path = Path("/proc")) -> float:
    """CPU that a process has used, in milliseconds, as the scheduler counts it: utime has ticks of 10 ms."""
    return int((proc / str(pid) / "schedstat").read_text(encoding="ascii").split()[0]) / 1e6


@asynccontextmanager
async def old_snapshot(dsn: str) -> AsyncGenerator[None]:
    """A transaction that keeps every row which dies meanwhile."""
    connection = await asyncpg.connect(dsn)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval("select 1 from asyncq._tasks")
        yield
    await connection.close()


async def measure(database: Database, jobs: int, tries: int) -> dict[str, dict[str, Cost]]:
    """After the fill; after a drain; and after a drain whose dead rows an old snapshot keeps."""
    found: dict[str, dict[str, Cost]] = {}
    async with AsyncExitStack() as stack:
        helper = await connect(database.dsn)
        stack.push_async_callback(helper.close)
        crowd = Crowd(database, jobs, helper)
        await crowd.fill()
        broken = await helper.fetch("select * from asyncq.violations()")
        print(f"filled: {jobs:,} jobs, violations: {broken}", flush=True)
        found["filled"] = await measured(database, [*crowd.by_itself(), *crowd.when_asked(), *crowd.of_all()], tries)
        for phase in ("drained", "held"):
            if phase == "held":
                await helper.execute("vacuum analyze")
                await stack.enter_async_context(old_snapshot(database.dsn))
            await crowd.drain()
            print(f"{phase}: {DRAINED:,} jobs were run", flush=True)
            found[phase] = await measured(database, [*crowd.by_itself(), *crowd.when_asked()], tries)
        broken = await helper.fetch("select * from asyncq.violations()")
        print(f"violations: {broken}", flush=True)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.statements", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many wait; 1000000 by default")
    parser.add_argument("--tries", type=int, default=TRIES, help=f"of each statement; {TRIES} by default")
    parser.add_argument("--out", type=Path, help="a file for all figures, as JSON")
    args = parser.parse_args(words)
    [binaries, *_] = sorted(available_binaries(), key=lambda found: found.numbers, reverse=True)

    async def run() -> dict[str, dict[str, Cost]]:
        async with place(server) as ours, ours.database() as database:
            return await measure(database, args.jobs, args.tries)

    with start(binaries=binaries, settings=SERVER) as server:
        print(f"PostgreSQL {binaries.version}; first, median and most ms, rows", flush=True)
        found = asyncio.run(run())
    if args.out:
        args.out.write_text(
            json.dumps({phase: {k: v._asdict() for k, v in costs.items()} for phase, costs in found.items()})
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

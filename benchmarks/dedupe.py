"""The cost of deduplication: microseconds an add, by kind, one by one and in bulk, on one connection.

With synchronous_commit off: an fsync in each add would hide every difference.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg

from asyncq import Client, JobSpec, UniquePolicy
from asyncq.store.database import Database, ReconnectingConnection
from asyncq.store.pruning import FIRST_KEY_LOCK, prune_key_locks
from asyncq.store.statements import DEFAULT_SCHEMA
from benchmarks import tasks

PRUNE_BATCH = 500
FILL_KEY_LOCKS = """
insert into asyncq._key_locks (key, used_at)
select hashtextextended('key:gate ' || number, 0), clock_timestamp() - interval '2 days'
from generate_series(0, {key_locks} - 1) as number on conflict do nothing
"""

POLICY = UniquePolicy(keys=("type", "args"), on_conflict="ignore")
OPTIONS = '{"unique": {"keys": ["type", "args"], "on_conflict": "ignore"}}'

# A job's number -> the options that make it an add of this kind. A new key a job, unless the kind says otherwise.
KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "unkeyed": lambda number: {},
    "keyed": lambda number: {"job_key": f"key {number}"},
    "replace": lambda number: {"job_key": f"held {number % 1_000}"},
    "unique": lambda number: {"unique": POLICY},
    "idempotent": lambda number: {"idempotency_key": f"request {number}"},
}
SQL = {
    "sql_unkeyed": "select id from asyncq.add_job('noop', to_json($1::int))",
    "sql_unique": f"select id from asyncq.add_job('noop', to_json($1::int), options => '{OPTIONS}')",
}


class Rates:
    """Measures adds of each kind; numbers are never used twice, so that no key is.

    Args:
        dsn: The server.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._number = 0

    async def measure(self, jobs: int, chunk: int) -> dict[str, float]:
        """One round.

        Args:
            jobs: How many of each kind, one by one; four times as many in bulk.
            chunk: How many in one call of the bulk.

        Returns:
            Microseconds an add, and the ratio to an unkeyed one, by kind.
        """
        figures: dict[str, float] = {}
        async with Client(self._dsn) as client:
            connection = await asyncpg.connect(self._dsn)
            try:
                await connection.execute("set synchronous_commit = off")
                await self._hold(client)
                for kind, options in KINDS.items():

                    async def add(number: int, options: Callable[[int], dict[str, Any]] = options) -> object:
                        return await client.add_job(
                            tasks.noop, number, connection=connection, autocommit=True, **options(number)
                        )

                    figures[f"add_{kind}_us"] = await self._one_by_one(jobs, add)
                for kind, statement in SQL.items():

                    async def add_by_sql(number: int, statement: str = statement) -> object:
                        return await connection.fetchval(statement, number)

                    figures[f"add_{kind}_us"] = await self._one_by_one(jobs, add_by_sql)
                for kind, options in KINDS.items():
                    figures[f"bulk_{kind}_us"] = await self._in_bulk(client, connection, 4 * jobs, chunk, options)
            finally:
                await connection.execute("truncate asyncq._jobs, asyncq._requests, asyncq._key_locks")
                await connection.close()
        return figures | _ratios(figures)

    async def _hold(self, client: Client) -> None:
        """Jobs that have the keys of the kind `replace`."""
        await client.add_jobs([tasks.noop.job(0).with_options(**KINDS["replace"](number)) for number in range(1_000)])

    async def _one_by_one(self, jobs: int, add: Callable[[int], Awaitable[object]]) -> float:
        numbers = self._take(jobs)
        began = time.perf_counter()
        for number in numbers:
            await add(number)
        return (time.perf_counter() - began) / jobs * 1e6

    async def _in_bulk(
        self, client: Client, connection: asyncpg.Connection, jobs: int, chunk: int, options: Callable[[int], Any]
    ) -> float:
        took_s = 0.0
        for _ in range(0, jobs, chunk):
            specs: Sequence[JobSpec] = [tasks.noop.job(number) for number in self._take(chunk)]
            # Keys that the client computes are part of the price, so the options are given in the measured time.
            began = time.perf_counter()
            specs = [spec.with_options(**options(self._number + place)) for place, spec in enumerate(specs)]
            await client.add_jobs(specs, connection=connection, autocommit=True)
            took_s += time.perf_counter() - began
        self._number += chunk
        return took_s / jobs * 1e6

    def _take(self, jobs: int) -> range:
        self._number += jobs
        return range(self._number - jobs, self._number)


async def prune(dsn: str, key_locks: int) -> dict[str, float]:
    """Prune key locks that were not used for two days, while keyed adds use these very keys.

    Args:
        dsn: The server.
        key_locks: How many.

    Returns:
        Milliseconds that it took, and of the longest add meanwhile.
    """
    done = asyncio.Event()
    longest_s = 0.0
    line = ReconnectingConnection(Database(dsn, DEFAULT_SCHEMA), "prune")
    async with Client(dsn) as client:

        async def add() -> None:
            nonlocal longest_s
            for number in itertools.count():
                if done.is_set():
                    break
                began = time.perf_counter()
                await client.add_job(tasks.noop, 0, job_key=f"lock {number * 7919 % key_locks}")
                longest_s = max(longest_s, time.perf_counter() - began)

        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(FILL_KEY_LOCKS.format(key_locks=key_locks))
            async with asyncio.TaskGroup() as group:
                group.create_task(add())
                began = time.perf_counter()
                removed, after = 0, FIRST_KEY_LOCK
                while after is not None:
                    some, after = await prune_key_locks(line, after, PRUNE_BATCH)
                    removed += some
                took_s = time.perf_counter() - began
                done.set()
            if removed < key_locks * 0.9:
                raise SystemExit(f"prune: {removed} of {key_locks} key locks were removed")
            await connection.execute("truncate asyncq._jobs, asyncq._key_locks")
        finally:
            await connection.close()
            await line.close()
    return {"prune_gates_ms": took_s * 1e3, "longest_add_while_pruning_ms": longest_s * 1e3}


def _ratios(figures: dict[str, float]) -> dict[str, float]:
    """The ratio of each kind to the unkeyed add of its sort."""
    bases = {"add_sql_": "add_sql_unkeyed_us", "add_": "add_unkeyed_us", "bulk_": "bulk_unkeyed_us"}
    ratios: dict[str, float] = {}
    for name, value in figures.items():
        base = next(base for prefix, base in bases.items() if name.startswith(prefix))
        if name != base:
            ratios[name.removesuffix("_us") + "_ratio"] = value / figures[base]
    return ratios

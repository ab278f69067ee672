# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""PgQueuer by its library calls."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.role import Adder, Note, Program, Wish, run


async def install(dsn: str, wish: Wish) -> None:
    """Make the schema."""
    connection = await asyncpg.connect(dsn)
    queries = Queries.from_asyncpg_connection(connection)
    await queries.install()
    if wish.get("autovac"):
        await queries.optimize_autovacuum()
    await connection.close()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """Queries on a pool."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=10) as pool:
        queries = Queries.from_asyncpg_pool(pool)

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            size = len(numbers)
            payloads: list[bytes | None] = [json.dumps({"id": number}).encode() for number in numbers]
            delay: timedelta | None = timedelta(seconds=delay_s) if delay_s else None
            later = [delay] * size
            await queries.enqueue(["noop"] * size, payloads, [0] * size, later)

        yield Adder(lambda number: queries.enqueue("noop", json.dumps({"id": number}).encode()), many)


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker on a connection, as its documentation has it."""
    queue = PgQueuer.from_asyncpg_connection(await asyncpg.connect(dsn))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        note(json.loads(job.payload or b"{}")["id"])

    await queue.run(batch_size=wish["batch"])


if __name__ == "__main__":
    run(Program(install, adder, work))

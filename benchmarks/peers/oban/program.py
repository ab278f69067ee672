# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""Oban by its library calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from oban import Job, Oban, worker
from oban.schema import install as install_schema
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.role import Adder, Note, Program, Wish, run

note: Note


@worker(queue="default")
class Noop:
    """Counts the call."""

    async def process(self, job: Job) -> None:
        note(job.args["id"])


@asynccontextmanager
async def pool_of(dsn: str) -> AsyncGenerator[AsyncConnectionPool]:
    """The pool that it wants to be given."""
    pool: AsyncConnectionPool = AsyncConnectionPool(dsn, min_size=2, max_size=12, open=False)
    async with pool:
        yield pool


async def install(dsn: str, wish: Wish) -> None:
    """Make the schema."""
    async with pool_of(dsn) as pool:
        await install_schema(pool)


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """An instance without queues."""
    async with pool_of(dsn) as pool, Oban(pool=pool) as oban:

        async def one(number: int) -> None:
            await oban.enqueue(Noop.new({"id": number}))

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            await oban.enqueue_many([Noop.new({"id": number}) for number in numbers])

        yield Adder(one, many)


async def work(dsn: str, wish: Wish, note_call: Note) -> None:
    """An instance with a queue."""
    global note
    note = note_call
    async with pool_of(dsn) as pool, Oban(pool=pool, queues={"default": wish["limit"]}):
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(Program(install, adder, work))

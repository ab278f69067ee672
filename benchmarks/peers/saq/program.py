# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""SAQ by its library calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from saq import Queue, Worker

from benchmarks.peers.role import Adder, Note, Program, Wish, run


def queue_of(dsn: str, wish: Wish) -> Queue:
    """A queue on either store."""
    if dsn.startswith("unix:"):
        from redis.asyncio import from_url
        from saq.queue.redis import RedisQueue

        return RedisQueue(from_url(dsn))
    return Queue.from_url(dsn, max_size=wish.get("pool", 20))


async def install(dsn: str, wish: Wish) -> None:
    """Make the schema."""
    async with adder(dsn, wish):
        pass


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A queue."""
    queue = queue_of(dsn, wish)
    await queue.connect()
    yield Adder(lambda number: queue.enqueue("noop", id=number))
    await queue.disconnect()


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker."""

    async def noop(ctx: object, *, id: int) -> None:
        note(id)

    queue = queue_of(dsn, wish)
    await queue.connect()
    await Worker(queue, functions=[("noop", noop)], concurrency=wish["concurrency"]).start()


if __name__ == "__main__":
    run(Program(install, adder, work))

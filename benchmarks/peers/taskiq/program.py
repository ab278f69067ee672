# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""taskiq by its library calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.peers.role import Adder, Note, Program, Wish, run


async def install(dsn: str, wish: Wish) -> None:
    """Create the group before the first job, since it does not see earlier ones."""
    broker = RedisStreamBroker(dsn)
    broker.is_worker_process = True
    await broker.startup()
    await broker.shutdown()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A broker."""
    broker = RedisStreamBroker(dsn)

    @broker.task(task_name="noop")
    async def noop(id: int) -> None:
        """Never runs here."""

    await broker.startup()
    yield Adder(noop.kiq)
    await broker.shutdown()


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A receiver."""
    broker = RedisStreamBroker(dsn)
    broker.is_worker_process = True

    @broker.task(task_name="noop")
    async def noop(id: int) -> None:
        note(id)

    await run_receiver_task(broker, run_startup=True)


if __name__ == "__main__":
    run(Program(install, adder, work))

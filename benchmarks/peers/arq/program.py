# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""arq by its library calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from benchmarks.peers.role import Adder, Note, Program, Wish, run


def settings_of(dsn: str) -> RedisSettings:
    """The server's socket."""
    return RedisSettings(unix_socket_path=dsn.removeprefix("unix://"))


async def install(dsn: str, wish: Wish) -> None:
    """Nothing is needed."""


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A pool."""
    pool = await create_pool(settings_of(dsn))
    yield Adder(lambda number: pool.enqueue_job("noop", number))
    await pool.aclose()


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker."""

    async def noop(ctx: object, id: int) -> None:
        note(id)

    options = {name: wish[name] for name in ("max_jobs", "poll_delay", "keep_result") if name in wish}
    await Worker(
        [func(noop, name="noop")], redis_settings=settings_of(dsn), handle_signals=False, **options
    ).async_run()


if __name__ == "__main__":
    run(Program(install, adder, work))

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""Procrastinate by its library calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

from benchmarks.peers.role import Adder, Note, Program, Wish, run


def app_of(dsn: str) -> App:
    """An app on a database."""
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=2, max_size=12))


async def install(dsn: str, wish: Wish) -> None:
    """Make the schema."""
    async with app_of(dsn).open_async() as app:
        await app.schema_manager.apply_schema_async()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """An app."""
    async with app_of(dsn).open_async() as app:

        @app.task(name="noop")
        async def noop(id: int) -> None:
            """Never runs here."""

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            await noop.batch_defer_async(*({"id": number} for number in numbers))

        yield Adder(lambda number: noop.defer_async(id=number), many)


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker."""
    async with app_of(dsn).open_async() as app:

        @app.task(name="noop")
        async def noop(id: int) -> None:
            note(id)

        await app.run_worker_async(concurrency=wish["concurrency"], install_signal_handlers=False)


if __name__ == "__main__":
    run(Program(install, adder, work))

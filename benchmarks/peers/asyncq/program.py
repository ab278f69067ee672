"""asyncq as its users write it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from asyncq import Client, Worker, task
from benchmarks.peers.role import Adder, Note, Program, Wish, run

note: Note


@task
async def noop(id: int) -> None:
    """Count the call."""
    note(id)


async def install(dsn: str, wish: Wish) -> None:
    """Bring the schema up to date."""
    await Client(dsn).migrate()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A client."""
    async with Client(dsn) as client:

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            specs = [noop.job(number) for number in numbers]
            if delay_s:
                run_at = datetime.now(UTC) + timedelta(seconds=delay_s)
                specs = [spec.with_options(run_at=run_at) for spec in specs]
            await client.add_jobs(specs)

        yield Adder(lambda number: client.add_job(noop, number), many)


async def work(dsn: str, wish: Wish, note_call: Note) -> None:
    """A worker."""
    global note
    note = note_call
    logging.basicConfig(level=logging.INFO)
    await Worker(dsn, tasks=[noop]).run()


if __name__ == "__main__":
    run(Program(install, adder, work))

"""asyncq as its users write it: `Worker(dsn, tasks=[...])`, INFO logging on."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from asyncq import Client, JobsFetched, JobSpec, Worker, observer
from benchmarks.peers.asyncq import tasks
from benchmarks.peers.asyncq.shapes import SHAPES
from benchmarks.peers.role import Adder, Note, Program, Wish, extra, run


async def install(dsn: str, wish: Wish) -> None:
    """Bring the schema up to date, and let a worker declare the limit of the task: adds read it."""
    await Client(dsn).migrate()
    if name := wish.get("task"):
        async with Worker(dsn, tasks=[tasks.TASKS[name]]).start():
            pass


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A client."""
    task = wish.get("task", "noop")
    shape = SHAPES[wish.get("shape", "plain")]
    producers = wish.get("producers", 1)

    def spec(number: int) -> JobSpec:
        if task == "noop":
            return shape(number)
        return tasks.job_of(task, number)

    async with Client(dsn, pool_size=max(producers, 10)) as client:

        async def one(number: int) -> None:
            if task == "noop":
                await client.add_job(tasks.noop, number)
            else:
                await client.add_job(spec(number))

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            specs = [spec(number) for number in numbers]
            if delay_s:
                run_at = datetime.now(UTC) + timedelta(seconds=delay_s)
                specs = [each.with_options(run_at=run_at) for each in specs]
            await client.add_jobs(specs)

        if "spread_s" in wish:
            yield Adder(punctual(client, wish))
        elif "awaited" in wish:
            yield Adder(awaiting(client))
        else:
            yield Adder(one, many)


def punctual(client: Client, wish: Wish) -> Callable[[int], Awaitable[None]]:
    """Adds jobs whose due times are spread over a while that begins in a second; says when each is due."""
    first = time.time() + 1.0
    to_monotonic_ns = time.monotonic_ns() - time.time_ns()
    due: list[int] = extra.setdefault("due_ns", [])

    async def one(number: int) -> None:
        at = first + number * wish["spread_s"] / wish["jobs"]
        due.append(int(at * 1e9) + to_monotonic_ns)
        await client.add_job(tasks.noop, number, run_at=datetime.fromtimestamp(at, UTC))

    return one


def awaiting(client: Client) -> Callable[[int], Awaitable[None]]:
    """Adds jobs and awaits their results; says when each arrived."""
    ended: list[int] = extra.setdefault("ended_ns", [])

    async def one(number: int) -> None:
        await client.run(tasks.noop.job(number))
        ended.append(time.monotonic_ns())

    return one


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker."""
    logging.basicConfig(level=logging.INFO)
    name = wish.get("task", "noop")
    if name in tasks.WITH_LETTERS:
        extra["alone"] = await tasks.alone(tasks.TASKS[name], 10, wish["alone_calls"])
    tasks.note = note
    observers = [longest_fetch] if wish.get("watch_fetches") else []
    await Worker(dsn, tasks=[tasks.TASKS[name]], observers=observers, **wish.get("options", {})).run()


@observer(JobsFetched)
def longest_fetch(event: JobsFetched) -> None:
    """Keep the longest."""
    extra["longest_fetch_ms"] = max(extra.get("longest_fetch_ms", 0.0), event.duration_s * 1000)


if __name__ == "__main__":
    run(Program(install, adder, work))

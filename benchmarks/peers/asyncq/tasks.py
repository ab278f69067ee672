"""The handlers of our own program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import msgspec

from asyncq import Call, Collect, ConstantRetry, JobContext, JobSpec, Limit, Rate, RunInfo, Task, resource, task, use
from benchmarks.peers.role import Note


def nobody(number: int) -> None:
    """Ignore a call."""


note: Note = nobody


class Letter(msgspec.Struct):
    """A payload of about a kilobyte."""

    id: int
    subject: str
    to: list[str]
    body: str


def letter(number: int) -> Letter:
    """One of them."""
    return Letter(number, f"Letter {number}", ["somebody@example.org"] * 5, "words " * 140)


@task
async def noop(id: int, ctx: JobContext) -> None:
    """Count the call; with a context, as the README writes handlers."""
    note(id)


@task
async def bare(id: int) -> None:
    """Count the call, without a context."""
    note(id)


@task
async def hold() -> None:
    """Run for ever."""
    await asyncio.Event().wait()


@task
async def stranger() -> None:
    """Never runs: no worker knows this task."""


@task(retry=ConstantRetry(0))
async def flaky(id: int, ctx: JobContext) -> None:
    """Fail the first time. The two calls of a job have numbers of their own: all of them are 0 to 2 * jobs - 1."""
    note(2 * id + ctx.attempt - 1)
    if ctx.attempt == 1:
        raise ValueError("the first attempt fails")


def nap_s(number: int) -> float:
    """The time for which this job sleeps: 0.1 to 2 s."""
    return 0.1 + number * 7919 % 1901 / 1000


@task
async def nap(id: int) -> None:
    """Sleep for the time of this job."""
    note(id)
    await asyncio.sleep(nap_s(id))


@task
async def second(id: int) -> None:
    """Wait for a second."""
    note(id)
    await asyncio.sleep(1)


@task
async def wait_1(item: Letter, ctx: JobContext) -> None:
    """Wait for a millisecond."""
    note(item.id)
    await asyncio.sleep(0.001)


@task
async def wait_20(item: Letter, ctx: JobContext) -> None:
    """Wait for 20 ms."""
    note(item.id)
    await asyncio.sleep(0.02)


@task
async def cpu_2(item: Letter, ctx: JobContext) -> None:
    """Compute for 2 ms."""
    note(item.id)
    compute(0.002)


def compute(for_s: float) -> None:
    """Use the CPU for so long."""
    until = time.thread_time() + for_s
    while time.thread_time() < until:
        pass


@task
async def single(id: int) -> None:
    """Compute for a millisecond for each job."""
    note(id)
    compute(0.001)


@task(collect=Collect(max=100, within="1 s"))
async def collected(ids: list[int]) -> None:
    """Compute for a millisecond for the jobs of each call."""
    for each in ids:
        note(each)
    compute(0.001)


@task(keep="1 day")
async def kept(id: int, ctx: JobContext) -> None:
    """Count the call; the job is kept once it has ended."""
    note(id)


@resource
async def numbers() -> AsyncGenerator[list[int]]:
    """What a worker opens once."""
    yield []


async def passing(run: RunInfo, call: Call) -> Any:
    """A middleware that does nothing."""
    return await call()


@task(middleware=[passing])
async def around(id: int, ctx: JobContext, opened: list[int] = use(numbers)) -> None:
    """Count the call, in a middleware and with a resource of the worker."""
    note(id)


KEYS = 10_000
SLOT_S = 0.005


@task(concurrency=1_000)
async def roomy(id: int, ctx: JobContext) -> None:
    """Count the call; its limit is never reached."""
    note(id)


@task(concurrency=Limit(1, by="key"))
async def keyed_1(id: int, key: int, ctx: JobContext) -> None:
    """Count the call; one at once of each key."""
    note(id)


@task(concurrency=Limit(3, by="key"))
async def keyed_3(id: int, key: int, ctx: JobContext) -> None:
    """Count the call; three at once of each key."""
    note(id)


@task(concurrency=1)
async def slot(id: int, ctx: JobContext) -> None:
    """Note the start and the end of a call that lasts a while; one at once."""
    note(2 * id)
    await asyncio.sleep(SLOT_S)
    note(2 * id + 1)


async def hold_key(id: int, key: int, ctx: JobContext) -> None:
    """Run for ever."""
    note(id)
    await asyncio.Event().wait()


full = task(name="full", concurrency=Limit(1, by="key"))(hold_key)
rated = task(name="rated", rate=Rate(1, per="1 h", by="key"))(hold_key)


TASKS: dict[str, Task[...]] = {
    each.name: each
    for each in (
        *(noop, bare, hold, flaky, nap, second, wait_1, wait_20, cpu_2, single, collected, kept, around),
        *(roomy, keyed_1, keyed_3, slot, full, rated),
    )
}
WITH_LETTERS = ("wait_1", "wait_20", "cpu_2")
WITH_KEYS = ("keyed_1", "keyed_3", "full", "rated")


def job_of(name: str, number: int) -> JobSpec:
    """The job with this number of a task."""
    if name in WITH_KEYS:
        return TASKS[name].job(number, number % KEYS)
    return TASKS[name].job(letter(number) if name in WITH_LETTERS else number)


async def alone(handler: Callable[[Letter, JobContext], Awaitable[None]], at_once: int, calls: int) -> float:
    """Calls a second of a handler by bare loops."""
    item, ctx = letter(0), cast("JobContext", None)  # no handler looks at it

    async def loop() -> None:
        for _ in range(calls // at_once):
            await handler(item, ctx)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(loop())
    return calls // at_once * at_once / (time.perf_counter() - began)

"""The protocol of a measured program: JSON lines on stdout, "go" and "stop" on stdin.

The program runs in the environment of its queue, so it imports the standard library alone. It ends when stdin
does, so that nothing outlives the harness.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

TICK_S = 0.005
WARM_UP = 50  # adds before the measured ones: connections are open, statements prepared
FILL_CHUNK = 1_000
FILLERS = 10  # where there is no bulk add

Wish = dict[str, Any]
"""What the harness asks for: jobs, producers, chunk, loop ..., and the settings of the variant."""
Note = Callable[[int], None]
"""What a handler calls with the id in its payload."""

extra: dict[str, Any] = {}
"""What a program adds to what is said at the end."""

out = os.dup(1)  # output of libraries goes to stderr
os.dup2(2, 1)


class Adder(NamedTuple):
    """Adds jobs.

    Args:
        one: Adds one job with this id.
        many: Adds jobs with these ids in one call, due after so many seconds; None where the queue cannot.
    """

    one: Callable[[int], Awaitable[object]]
    many: Callable[[Sequence[int], float], Awaitable[object]] | None = None


class Program(NamedTuple):
    """A queue, as the harness uses it.

    Args:
        install: Makes the schema in an empty database.
        adder: Opens what adds jobs.
        work: Runs jobs for ever, and calls `note` in each handler.
    """

    install: Callable[[str, Wish], Awaitable[None]]
    adder: Callable[[str, Wish], AbstractAsyncContextManager[Adder]]
    work: Callable[[str, Wish, Note], Awaitable[None]]


class Ledger:
    """Counts the calls of the handlers."""

    def __init__(self) -> None:
        self.calls = 0
        self.total = 0
        self.first_ns = 0
        self.starts: list[tuple[int, int]] = []

    def note(self, number: int) -> None:
        """A handler was called."""
        if not self.calls:
            self.first_ns = time.monotonic_ns()
        self.calls += 1
        self.total += number

    def stamp(self, number: int) -> None:
        """A handler was called, at this time."""
        self.starts.append((number, time.monotonic_ns()))
        self.note(number)

    def report(self) -> dict[str, Any]:
        """All that is known."""
        return {"calls": self.calls, "total": self.total, "first_ns": self.first_ns, "starts": self.starts}


def say(kind: str, **fields: Any) -> None:
    """Send a line to the harness."""
    line = json.dumps({"kind": kind, **fields}).encode() + b"\n"
    while line:
        line = line[os.write(out, line) :]


def await_go() -> None:
    """Say that everything is prepared, and wait for the start."""
    say("prepared")
    if sys.stdin.readline().strip() != "go":
        os._exit(1)


def run(program: Program) -> None:
    """Play the role that the command line names: `fill`, `add`, `tell` or `work`."""
    role, dsn, wish_text = sys.argv[1:]
    wish: Wish = json.loads(wish_text)
    plays: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "fill": lambda: fill(program, dsn, wish),
        "add": lambda: add(program, dsn, wish),
        "tell": lambda: tell(program, dsn, wish),
        "work": lambda: work(program, dsn, wish),
    }
    factory = None
    if wish.get("loop", "uvloop") == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    if role == "work":
        await_go()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(plays[role]())
    say("done")


async def fill(program: Program, dsn: str, wish: Wish) -> None:
    """Make the schema, and add so many waiting jobs; those of the future come after the ready ones."""
    await program.install(dsn, wish)
    jobs, future = wish["jobs"], wish.get("future", 0)
    if not jobs + future:
        return
    async with program.adder(dsn, wish) as adder:
        if adder.many is None:
            await in_parallel(adder, range(jobs), FILLERS)
        else:
            for first in range(0, jobs, FILL_CHUNK):
                await adder.many(range(first, min(first + FILL_CHUNK, jobs)), 0)
            for first in range(jobs, jobs + future, FILL_CHUNK):
                await adder.many(range(first, min(first + FILL_CHUNK, jobs + future)), 86_400)


async def add(program: Program, dsn: str, wish: Wish) -> None:
    """Add jobs as fast as possible: one by one by so many producers, or in chunks."""
    jobs, chunk = wish["jobs"], wish.get("chunk", 1)
    async with program.adder(dsn, wish) as adder:
        await in_parallel(adder, range(WARM_UP), wish.get("producers", 1))
        await asyncio.to_thread(await_go)
        began, used_s = time.perf_counter(), time.process_time()
        if chunk == 1 or adder.many is None:
            await in_parallel(adder, range(jobs), wish.get("producers", 1))
        else:
            for first in range(0, jobs, chunk):
                await adder.many(range(first, first + chunk), 0)
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - used_s
    say("added", took_s=took_s, cpu_s=cpu_s, warm_up=WARM_UP)


async def in_parallel(adder: Adder, numbers: Sequence[int], producers: int) -> None:
    """Add one by one, each producer its share."""

    async def produce(share: Sequence[int]) -> None:
        for number in share:
            await adder.one(number)

    async with asyncio.TaskGroup() as group:
        for producer in range(producers):
            group.create_task(produce(numbers[producer::producers]))


async def tell(program: Program, dsn: str, wish: Wish) -> None:
    """Add jobs one by one with a pause after each, and report when each was sent."""
    sent: list[int] = []
    async with program.adder(dsn, wish) as adder:
        await asyncio.to_thread(await_go)
        for number in range(wish["jobs"]):
            sent.append(time.monotonic_ns())
            await adder.one(number)
            await asyncio.sleep(wish["pause_s"])
    say("sent", at=sent, **extra)


async def work(program: Program, dsn: str, wish: Wish) -> None:
    """Run jobs until the harness stops it; report the number of calls whenever it has changed."""
    ledger = Ledger()
    loop = asyncio.get_running_loop()
    tick_s: float = wish.get("tick_s", TICK_S)

    def hear() -> None:
        if os.read(0, 64).strip() == b"stop":
            say("report", **ledger.report(), **extra)
            os._exit(0)
        os._exit(1)

    def tick(said: int) -> None:
        if ledger.calls != said:
            said = ledger.calls
            say("calls", calls=said)
        loop.call_later(tick_s, tick, said)

    loop.add_reader(0, hear)
    tick(0)
    await program.work(dsn, wish, ledger.stamp if wish.get("stamps") else ledger.note)

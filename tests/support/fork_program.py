"""A worker whose handlers fork, in a process of its own: `python -m tests.support.fork_program DSN SCHEMA LOOP BEFORE`.

LOOP is asyncio or uvloop. BEFORE is the handler of SIGTERM before the worker runs: default, mine (a function), or loop
(the event loop calls something). It says on its standard output what happens, the children too.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import uvloop
from anyio.to_thread import run_sync

from asyncq import Worker, task
from tests.support.worker_program import say, say_event

FORK: Any = multiprocessing.get_context("fork")


def wait_for_a_signal() -> None:
    """Run in a child: until a signal ends it."""
    try:
        say("child", os.getpid())
        time.sleep(60)
    except KeyboardInterrupt:
        say("child interrupted")
    say("child goes on")


@task
async def pool() -> None:
    """Leave a Pool block, which sends SIGTERM to its processes and waits for them."""
    with FORK.Pool(2) as workers:
        say("map", workers.map(abs, [-1, -2]))


@task
async def hasty_pool() -> None:
    """Leave the block at once, while its processes are still starting."""
    for _ in range(20):
        with FORK.Pool(2):
            pass


@task
def process() -> None:
    """Wait in a thread for a child, and say how it ended."""
    child = FORK.Process(target=wait_for_a_signal)
    child.start()
    child.join()
    say("ended with", child.exitcode)


@task
async def fork() -> None:
    """The same by `os.fork`, from the event loop's thread."""
    if (child := os.fork()) == 0:
        wait_for_a_signal()
        os._exit(0)
    _, status = await run_sync(os.waitpid, child, 0)
    say("ended with", os.waitstatus_to_exitcode(status))


@task
async def comes_back(how: str) -> None:
    """Let the child leave the handler, or wait in it."""
    if (child := os.fork()) == 0:
        say("child", os.getpid())
        if how == "raises":
            raise ValueError("in the child")
        if how == "exits":
            sys.exit(0)
        if how == "waits":
            await asyncio.sleep(60)
        return
    _, status = await run_sync(os.waitpid, child, 0)
    say("ended with", os.waitstatus_to_exitcode(status))


@task
async def nothing() -> None:
    """Nothing."""
    say("nothing")


@task
def worker() -> None:
    """Run a worker in a child."""
    child = FORK.Process(target=work)
    child.start()
    child.join()
    say("ended with", child.exitcode)


def work() -> None:
    """Run the worker of the command line."""
    dsn, schema, loop, before = sys.argv[1:]

    async def main() -> None:
        if before == "loop":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, say, "the service was called in", os.getpid())
        tasks = [pool, hasty_pool, process, fork, comes_back, nothing, worker]
        await Worker(dsn, tasks, schema=schema, grace=10, lease=60, observers=[say_event], poll=60).run()

    # As in a terminal: a shell starts background programs with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if before == "mine":
        signal.signal(signal.SIGTERM, lambda *_: say("mine in", os.getpid()))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(main())
    say("ended")


if __name__ == "__main__":
    work()

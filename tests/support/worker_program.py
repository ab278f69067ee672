"""A worker in a process of its own, for signals and kills: `python -m tests.support.worker_program DSN SCHEMA GRACE`.

It says on its standard output what happens; its job `hold` ends as its payload says.
"""

import asyncio
import os
import sys
from typing import Any

from asyncq import JobContext, Worker, task


def say(*words: object) -> None:
    """One line, at once, and in one piece: children may say something at the same time."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@task
async def hold(ctx: JobContext, how: str) -> None:
    """Run until a request to stop, or a cancellation."""
    say("started", ctx.job.id)
    try:
        if how == "finish on request":
            await ctx.cancelled.wait()
        else:
            await asyncio.Event().wait()
    finally:
        await ctx.query("select 1")
        say("cleaned up", ctx.job.id)


def say_event(event: Any) -> None:
    """Print the event's name."""
    say("event", type(event).__name__)


def main() -> None:
    """Run the worker."""
    dsn, schema, grace = sys.argv[1:]
    asyncio.run(Worker(dsn, [hold], schema=schema, grace=float(grace), observers=[say_event], poll=60).run())
    say("ended")


if __name__ == "__main__":
    main()

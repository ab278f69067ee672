"""A worker in a process of its own, to be stalled: `python -m tests.support.watchdog_program DSN SCHEMA BLOCKED_AFTER`.

It says on its standard output what happens.
"""

import asyncio
import sys

from asyncq import JobContext, Worker, task
from tests.support.worker_program import say, say_event


@task
async def hold(ctx: JobContext) -> None:
    """Run until a request to stop."""
    say("started", ctx.job.id)
    await ctx.cancelled.wait()


def main() -> None:
    """Run the worker."""
    dsn, schema, after = sys.argv[1:]
    worker = Worker(dsn, [hold], schema=schema, blocked_after=float(after), observers=[say_event], poll=60)
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()

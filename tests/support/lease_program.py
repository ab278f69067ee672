"""A worker in a process of its own, to be killed and stopped.

    python -m tests.support.lease_program DSN SCHEMA LEASE HOW

HOW is `listen` or `poll`: how it learns of jobs.

It says on its standard output what happens.
"""

import asyncio
import os
import signal
import sys

from asyncq import JobContext, Worker, task
from tests.support.worker_program import say, say_event


@task
async def hold(ctx: JobContext, how: str) -> None:
    """Run until cancelled, kill the process, stop it and end when it continues, or end at once."""
    say("started", ctx.job.id)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        # When the process goes on, the heartbeat's thread runs only once this one has nothing left to do.
        sys.setswitchinterval(60)
        os.kill(os.getpid(), signal.SIGSTOP)
    if how in ("stop", "end"):
        return
    try:
        await asyncio.Event().wait()
    finally:
        say("cancelled", ctx.job.id)


def main() -> None:
    """Run the worker."""
    dsn, schema, lease, how = sys.argv[1:]
    listens = how == "listen"
    poll = 60.0 if listens else 0.1
    asyncio.run(
        Worker(dsn, [hold], schema=schema, lease=float(lease), observers=[say_event], listen=listens, poll=poll).run()
    )


if __name__ == "__main__":
    main()

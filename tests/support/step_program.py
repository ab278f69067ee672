"""A worker in a process of its own whose job has one step: `python -m tests.support.step_program DSN SCHEMA WHEN`.

WHEN is the moment at which the process kills itself: `before` the step is stored, `after` it, or `never`. The payload
of the job is the kind of the step. It inserts the job's id into the table `effects`.
"""

import asyncio
import os
import signal
import sys

from asyncq import JobContext, Worker, task
from asyncq.store.database import Connection
from tests.support.worker_program import say, say_event


@task
async def handle(ctx: JobContext, kind: str) -> None:
    """Do the step, and be killed."""
    _, schema, when = sys.argv[1:]

    def die(moment: str) -> None:
        if when == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    async def write(connection: Connection) -> None:
        say("called")
        await connection.execute(f"insert into {schema}.effects (job_id) values ($1)", ctx.job.id)
        die("before")

    async def write_alone() -> None:
        async with ctx.connection() as connection:
            await write(connection)

    if kind == "step":
        await ctx.step("write", write_alone)
    else:
        await ctx.tx_step("write", write)
    die("after")


def main() -> None:
    """Run the worker."""
    dsn, schema, _ = sys.argv[1:]
    asyncio.run(Worker(dsn, [handle], schema=schema, lease=1, observers=[say_event]).run())


if __name__ == "__main__":
    main()

"""A worker process of the chaos suite: `python -m tests.crash.chaos_worker DSN LEDGER`.

Its handlers write down when they run, with the machine's own clock and past every connection.
"""

import asyncio
import os
import random
import sys
import time

from asyncq import ConstantRetry, JobContext, Worker, task
from asyncq.cli import logs

LEASE_S = 3.0

_ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if __name__ == "__main__" else -1


def write(word: str, number: int, queue: str | None) -> None:
    """Append a line at once."""
    os.write(_ledger, f"{word} {number} {queue or '-'} {time.monotonic_ns()}\n".encode())


@task(max_attempts=1000, retry=ConstantRetry(0.1))
async def note(number: int, ctx: JobContext) -> None:
    """Take a moment; fail now and then."""
    write("begin", number, ctx.job.queue)
    ending = "cancelled"
    try:
        await asyncio.sleep(random.choice((0.0, 0.002, 0.02, 0.1)))
        ending = "failed" if random.random() < 0.03 else "completed"
    finally:
        write(ending, number, ctx.job.queue)
    if ending == "failed":
        raise RuntimeError("now and then")


if __name__ == "__main__":
    logs.configure("info", "text")
    asyncio.run(Worker(sys.argv[1], [note], lease=LEASE_S, grace=1, concurrency=8).run())

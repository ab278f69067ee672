"""One coroutine worker: take, execute, hand over, repeat. N of these run side by side."""

from __future__ import annotations

from asyncq.engine.buffer import Buffer
from asyncq.engine.completer import Completer
from asyncq.engine.executor import Executor


async def job_loop(buffer: Buffer, executor: Executor, completer: Completer) -> None:
    """Run jobs until the buffer is closed.

    Args:
        buffer: Where claims come from.
        executor: Runs them.
        completer: Takes what they came to.

    If cancelled, the job that runs goes on without its worker, and nobody settles it.
    """
    while (claim := await buffer.take()) is not None:
        run, outcome = await executor.run(claim)
        completer.hand_over(run, outcome)
        if completer.is_full:
            await completer.room()

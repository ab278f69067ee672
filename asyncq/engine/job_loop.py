"""One coroutine worker: take, execute, hand over, repeat. N of these run side by side."""

from __future__ import annotations

from asyncq.engine.base.identity import Identity
from asyncq.engine.fetch.buffer import Buffer
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor
from asyncq.engine.settle.completer import Completer

REFUSED = "the worker could not prove that it lives, or stops"


async def job_loop(
    buffer: Buffer, executor: Executor, completer: Completer, start_gate: StartGate, identity: Identity
) -> None:
    """Run jobs until the buffer is closed.

    Args:
        buffer: Where claims come from.
        executor: Runs them.
        completer: Takes what they came to, and those that may not start.
        start_gate: Says which these are.
        identity: Who claimed them.

    It also ends after a job whose handler was stuck for so long that another loop took over.

    If cancelled, the job that runs goes on without its worker, and nobody settles it.
    """
    while (claim := buffer.pop() or await buffer.take()) is not None:
        if not start_gate.may_start_now(claim):
            worker_id = identity.worker_id
            if not await start_gate.admit(claim):
                completer.give_back([claim], REFUSED, worker_id)
                continue
        run, outcome = executor.start(claim)
        never_waited = outcome is not None
        if outcome is None:
            outcome = await executor.end(run)
        completer.hand_over(run, outcome)
        if never_waited:
            buffer.held(run.duration_s)
        if run.is_replaced:
            return
        if completer.is_full:
            await completer.room()

"""Ends cancelled jobs of this worker: it cancels a running handler, and a claim in the buffer never starts.

A message names the job's id and the token of its claim, so an old message never ends a later run. The row is marked
too: whatever its result, the run is settled as cancelled. So a message may be lost, late or repeated.
"""

import asyncio
from collections.abc import Iterable

from asyncq.engine.base.identity import Identity
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor


class Canceller:
    """The canceller of one worker."""

    def __init__(self, identity: Identity, inbox: Inbox, executor: Executor, start_gate: StartGate) -> None:
        self._identity = identity
        self._inbox = inbox
        self._executor = executor
        self._start_gate = start_gate
        self._asked: set[tuple[int, int]] = set()

    def cancel(self, worker_id: int, jobs: Iterable[tuple[int, int]]) -> None:
        """End the jobs of this worker among cancelled jobs: the id of each, and the token of its claim.

        Ignored for another worker, or an earlier id of this one.
        """
        if worker_id != self._identity.worker_id:
            return
        if not self._asked:
            # Messages come in bursts, and each search reads all running jobs. So one search handles all messages.
            asyncio.get_running_loop().call_soon(self._act)
        self._asked.update(jobs)

    def _act(self) -> None:
        asked, self._asked = self._asked, set()
        self._inbox.cancel(asked - self._executor.cancel_jobs(asked) - self._start_gate.cancel(asked))

"""Ends jobs of this worker that were cancelled: a running handler is cancelled, a claim in the buffer never starts.

What was cancelled is known by the job's id and the token of its claim, so that an old message never ends a later run.
The row says the same: whatever a run comes to, it is settled as cancelled. So a message may be lost, late or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from asyncq.engine.base.identity import Identity
from asyncq.engine.fetch.inbox import Inbox
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor


class Canceller:
    """The canceller of one worker.

    Args:
        identity: Whose jobs.
        inbox: Holds those that have not started, and those that are still on their way.
        executor: Runs the others.
        start_gate: Knows those that are about to start.
    """

    def __init__(self, identity: Identity, inbox: Inbox, executor: Executor, start_gate: StartGate) -> None:
        self._identity = identity
        self._inbox = inbox
        self._executor = executor
        self._start_gate = start_gate
        self._asked: set[tuple[int, int]] = set()

    def cancel(self, worker_id: int, jobs: Iterable[tuple[int, int]]) -> None:
        """Running jobs of some worker were cancelled: end those that are here.

        Args:
            worker_id: Whose; another worker's are left alone, as are those of an id that this worker had before.
            jobs: The id of each, and the token of its claim.
        """
        if worker_id != self._identity.worker_id:
            return
        if not self._asked:
            # Messages come in a burst, and each look goes through all that runs: one look for all of them.
            asyncio.get_running_loop().call_soon(self._act)
        self._asked.update(jobs)

    def _act(self) -> None:
        asked, self._asked = self._asked, set()
        self._inbox.cancel(asked - self._executor.cancel_jobs(asked) - self._start_gate.cancel(asked))

"""Ends jobs of this worker that were cancelled: a running handler is cancelled, a claim in the buffer never starts.

What was cancelled is known by the job's id and the token of its claim, so that an old message never ends a later run.
The row says the same: whatever a run comes to, it is settled as cancelled. So a message may be lost, late or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from asyncq.domain.job import Claim
from asyncq.engine.base.identity import Identity
from asyncq.engine.fetch.fetcher import Fetcher
from asyncq.engine.liveness.start_gate import StartGate
from asyncq.engine.run.executor import Executor

REASON = "they were cancelled"


class Canceller:
    """The canceller of one worker.

    Args:
        identity: Whose jobs.
        fetcher: Holds those that have not started; asked to let none pass that was cancelled on its way.
        executor: Runs the others.
        start_gate: Knows those that are about to start.
    """

    def __init__(self, identity: Identity, fetcher: Fetcher, executor: Executor, start_gate: StartGate) -> None:
        self._identity = identity
        self._fetcher = fetcher
        self._executor = executor
        self._start_gate = start_gate
        self._asked: set[tuple[int, int]] = set()
        self._early: set[tuple[int, int]] = set()
        fetcher.admit = self.admit

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
        unknown = asked - self._executor.cancel_jobs(asked) - self._start_gate.cancel(asked)
        removed = self._fetcher.buffer.remove(unknown)
        if removed:
            self._fetcher.give_back(removed, REASON, self._identity.worker_id)
        # Unknown jobs have ended, unless their claims are still on the way: of what was not answered yet.
        self._early = {job for job in self._early | unknown if job[1] in self._fetcher.expected}

    def admit(self, claims: list[Claim]) -> list[Claim]:
        """Let claims pass that were just fetched; those that were cancelled on their way go back, to be settled.

        Args:
            claims: They.

        Returns:
            Those that may start.
        """
        if not self._early:
            return claims
        early = self._early
        self._early = {job for job in early if job[1] in self._fetcher.expected}
        if stopped := [claim for claim in claims if (claim.id, claim.token) in early]:
            self._fetcher.give_back(stopped, REASON, self._identity.worker_id)
        return [claim for claim in claims if (claim.id, claim.token) not in early]

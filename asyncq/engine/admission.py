"""Lets claims start, or not: without a proof that the worker lives none does, and suspects are named before they run.

A suspect is a job whose last worker died with it in hand, and nobody knows whether it had begun. That was no attempt, so
the next death has to be known as its doing: the worker says in its row that it runs, and waits for the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from asyncq.domain.job import Claim
from asyncq.engine.heartbeat import Heartbeat
from asyncq.engine.lease import Lease

SUSPECT = "WorkerLost: "


class Admission:
    """The admission of one worker.

    Args:
        lease: Whether the worker may start jobs.
        heartbeat: Names suspects.
    """

    def __init__(self, lease: Lease, heartbeat: Heartbeat) -> None:
        self._lease = lease
        self._heartbeat = heartbeat
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many claims wait to be named."""
        return len(self._asked)

    def is_plain(self, claim: Claim) -> bool:
        """Whether a claim may start without further ado."""
        return self._lease.is_held and not is_suspect(claim)

    async def admit(self, claim: Claim) -> bool:
        """Name a suspect.

        Args:
            claim: The claim of a job.

        Returns:
            Whether it may start; False when the worker stops, or cannot prove that it lives.

        If cancelled, it stays named: that hurts nobody but the job, should the worker die now.
        """
        if not self._lease.is_held or self._is_closed:
            return False
        if not is_suspect(claim):
            return True
        name = _name(claim)
        asked = self._asked[name] = asyncio.get_running_loop().create_future()
        self._heartbeat.names = (*self._heartbeat.names, name)
        self._heartbeat.beat_now()
        return await asked

    def ended(self, claim: Claim) -> None:
        """A run has ended; the next beat does not name it any more."""
        if is_suspect(claim):
            name = _name(claim)
            self._heartbeat.names = tuple(other for other in self._heartbeat.names if other != name)

    def named(self, names: Collection[str]) -> None:
        """A beat was written that named these claims."""
        for name in names:
            if (asked := self._asked.pop(name, None)) is not None and not asked.done():
                asked.set_result(self._lease.is_held)

    def refuse(self) -> None:
        """Those that wait may not start: others may have taken over."""
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_result(False)

    def close(self) -> None:
        """Nothing starts any more but what is plain."""
        self._is_closed = True
        self.refuse()


def is_suspect(claim: Claim) -> bool:
    """Whether the last worker that had this job died with it."""
    return claim.last_error is not None and claim.last_error.startswith(SUSPECT)


def _name(claim: Claim) -> str:
    return f"{claim.id}/{claim.token}"

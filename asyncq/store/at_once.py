"""Which way an add goes that commits at once."""

from __future__ import annotations

import asyncio
from typing import Literal

from asyncq.domain.job import JobSpec
from asyncq.domain.payload import size_of

# How often offers are looked for while none for the task stands. An add that looks in vain costs as much as two.
BLIND_S = 0.02
# The largest payload that a batch has room for, as _add_keyless_job has it.
ROOM = 1000

# The statements that do it.
Way = Literal["fill_offer", "insert_plain_job", "insert_job", "add_at_once"]


class AtOnce:
    """Which way adds go that commit at once, over the connections of one client.

    Attributes:
        keeps_statements: Whether the connections keep prepared statements; else a function that does all is faster, as
            the server's sessions keep those in it.
        blind_until: Until when adds of a task need not look for offers: none stood a moment ago.
    """

    def __init__(self, *, keeps_statements: bool) -> None:
        self.keeps_statements = keeps_statements
        self._packs: dict[str, bool] = {}  # tasks for which an offer stood: whether it was one of a batch
        self.blind_until: dict[str, float] = {}

    def way(self, spec: JobSpec) -> tuple[Way, bool]:
        """What is tried first, and whether an insert looks for offers, and does nothing where there are some.

        Of many adds at once only one looks for an offer, or takes one: each is for one job.
        """
        if not can_run_now(spec):
            return "insert_job", False
        task, insert = spec.task, "insert_plain_job" if spec.meta is None else "insert_job"
        packs = self._packs.pop(task, None)
        now = asyncio.get_running_loop().time()
        if packs is None and now < self.blind_until.get(task, now):
            return insert, False
        self.blind_until[task] = now + BLIND_S
        if packs is None:
            return insert, True
        return "fill_offer" if packs and spec.meta is None and size_of(spec.payload) <= ROOM else "add_at_once", False

    def learn(self, task: str, *, packs: bool | None) -> None:
        """Take note of which offer for a task an add met: whether it was one of a batch, or None if there was none."""
        if packs is not None:
            self._packs[task] = packs
            self.blind_until.pop(task, None)


def can_run_now(spec: JobSpec) -> bool:
    """Whether a job waits for nothing: neither for its time nor for others of a queue, and no worker passes it by."""
    return spec.queue is None and spec.run_at is None and not spec.flags

"""Which way an add goes that commits at once: one insert, or the function."""

from __future__ import annotations

import asyncio

# How often offers are looked for while workers make some, but none for the task. An idle one makes the next after 2 ms.
BLIND_S = 0.005


class AtOnce:
    """Which way adds go that commit at once, over the connections of one client.

    Attributes:
        keeps_statements: Whether the connections keep prepared statements; else the function is faster, as the server's
            sessions keep those in it.
    """

    def __init__(self, *, keeps_statements: bool) -> None:
        self.keeps_statements = keeps_statements
        self._wanted: set[str] = set()  # tasks for which an offer stood: the function is called first
        self._look_at: dict[str, float] = {}  # tasks for which none did while workers made some

    def inserts(self, task: str) -> bool:
        """Whether one insert is tried before the function is called."""
        return task not in self._wanted

    def looks(self, task: str) -> bool:
        """Whether that looks for offers; of many adds at once only one does, if it is time for that."""
        if task not in self._look_at:
            return True
        now = asyncio.get_running_loop().time()
        if now < self._look_at[task]:
            return False
        self._look_at[task] = now + BLIND_S
        return True

    def learn(self, task: str, *, meets_offers: bool, is_wanted: bool) -> None:
        """Take note of what the function met."""
        self._wanted.discard(task)
        self._look_at.pop(task, None)
        if meets_offers and is_wanted:
            self._wanted.add(task)
        elif meets_offers:
            self._look_at[task] = asyncio.get_running_loop().time() + BLIND_S

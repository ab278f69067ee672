"""Changes of all jobs that match a filter, a thousand at a time; an operation ends with its process."""

import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from asyncq.domain.errors import AsyncqError
from asyncq.domain.finding import ChangedJobs

MOST_KEPT = 50
MOST_FAILED = 2

Step = Callable[[int | None], Awaitable[ChangedJobs]]


class Operation(msgspec.Struct):
    """One operation of this process.

    Attributes:
        id: Its name in addresses.
        action: What is done to each job.
        filter: Which jobs.
        by: Who began it.
        total: How many jobs matched when it was previewed; 10,001 for more than 10,000.
        done: How many were changed until now.
        state: `running`, `done`, `stopped` by a user or the end of the process, or `failed`: two steps in a row failed.
        errors: The last errors.
        began_at: When it began.
    """

    id: str
    action: str
    filter: dict[str, Any]
    by: str
    total: int
    began_at: datetime
    done: int = 0
    state: Literal["running", "done", "stopped", "failed"] = "running"
    errors: list[str] = []


class Bulk:
    """The operations of one process; the newest fifty are remembered."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}

    def begin(self, action: str, wanted: dict[str, Any], by: str, total: int) -> Operation:
        """Remember a new operation; `run` does it."""
        operation = Operation(secrets.token_hex(8), action, wanted, by, total, datetime.now(UTC))
        self._operations[operation.id] = operation
        for old in list(self._operations)[:-MOST_KEPT]:
            if self._operations[old].state != "running":
                del self._operations[old]
        return operation

    async def run(self, operation: Operation, step: Step) -> None:
        """Do an operation, each step in a transaction of its own; a step that failed is tried once more."""
        start: int | None = None
        failed = 0
        try:
            while operation.state == "running":
                try:
                    changed = await step(start)
                except AsyncqError as error:
                    failed += 1
                    operation.errors = [*operation.errors, str(error)][-5:]
                    if failed == MOST_FAILED:
                        operation.state = "failed"
                    continue
                failed, start = 0, changed.next
                operation.done += len(changed.ids)
                if start is None and operation.state == "running":
                    operation.state = "done"
        finally:
            if operation.state == "running":
                operation.state = "stopped"

    def stop(self, name: str) -> Operation | None:
        """Stop an operation after its step; None if there is none of this name."""
        operation = self._operations.get(name)
        if operation is not None and operation.state == "running":
            operation.state = "stopped"
        return operation

    def get(self, name: str) -> Operation | None:
        return self._operations.get(name)

    def all(self) -> list[Operation]:
        """The operations, the newest first."""
        return list(reversed(self._operations.values()))

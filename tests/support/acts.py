"""Changes of a job that an add meets while they are uncommitted."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import asyncpg

from tests.support.jobs import change, complete, fetch
from tests.support.session import Session
from tests.support.waiting import wait_until

THOROUGH = True
LEVELS = ("read_committed", "repeatable_read", "serializable")

Act = Callable[[Session, list[asyncpg.Record]], Awaitable[object]]
Done = TypeVar("Done")
Acted = TypeVar("Acted")


async def is_waiting(sql: Session, other: Session) -> bool:
    """Whether another session waits for one."""
    return await sql.value("select pg_blocking_pids($1) <> '{}'", other.connection.get_server_pid())


async def _fetch(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await fetch(sql, token=2))


async def _complete(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await complete(sql, claims))


async def _fail(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims, attempts=1, delay_s=3600.0, error="e"))


async def _discard(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims, attempts=32767, error="e"))


async def _return(sql: Session, claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await change(sql, claims))


async def _rescue(sql: Session, _claims: list[asyncpg.Record]) -> None:
    assert 1 == len(await sql.run("rescue_jobs", THOROUGH, None))


# Acts of workers -> the state of the job before, and after the commit.
BY_WORKERS: dict[str, tuple[Act, str | None, str | None]] = {
    "a fetch": (_fetch, "available", "active"),
    "a completion": (_complete, "active", None),
    "a failure": (_fail, "active", "retryable"),
    "the last failure": (_discard, "active", "discarded"),
    "a return": (_return, "active", "available"),
    "a rescue": (_rescue, "active", "available"),
}


class Adder(Generic[Done]):
    """Adds a job in a transaction of its own, at an isolation level; waits if it has to.

    Attributes:
        done: The answer of the last add.
        refusals: The codes of the errors of earlier ones.
    """

    def __init__(self, sql: Session, level: str, add: Callable[[Session], Awaitable[Done]]) -> None:
        self._sql = sql
        self._level = level
        self._add = add
        self.done: Done | None = None
        self.refusals: list[str | None] = []

    async def add(self) -> None:
        """Add, and record the result."""
        try:
            async with self._sql.connection.transaction(isolation=self._level):
                self.done = await self._add(self._sql)
        except asyncpg.PostgresError as error:
            self.refusals.append(error.sqlstate)

    async def add_again_if_refused(self) -> None:
        """Do what every caller at the stricter levels has to do."""
        if self.refusals:
            await self.add()

    async def add_during(self, sql: Session, act: Awaitable[Acted], ends: str) -> Acted:
        """Add while another session's act is not committed yet; then that one commits, or rolls back."""
        transaction = sql.connection.transaction()
        await transaction.start()
        done = await act
        async with anyio.create_task_group() as group:
            group.start_soon(self.add)
            await wait_until(lambda: is_waiting(sql, self._sql), description="the add to wait")
            await getattr(transaction, ends)()
        return done

"""All orders in which two and three transactions end the jobs for which another job waits.

Each ender ends one job, then commits, rolls back, loses its connection, or rolls back to a savepoint and commits. After
a commit it looks, or its worker has died and it does not. No order releases the waiter too early, never, or twice.
"""

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import permutations, product

import pytest

from tests.support.jobs import add
from tests.support.session import Session, session
from tests.support.waits import broken_laws, left, look, state, wait_for

FINISHES = ("commit", "commit and die", "roll back", "die", "roll back to a savepoint")
COMMITS = ("commit", "commit and die")
SEED = 20_261_128

Order = tuple[tuple[int, str], ...]


def orders(enders: int) -> Iterator[Order]:
    """All orders of the ends and the finishes of so many transactions: each ends its job before it finishes."""
    events = [(ender, act) for ender in range(enders) for act in ("end", "finish")]
    for order in permutations(events):
        if all(order.index((ender, "end")) < order.index((ender, "finish")) for ender in range(enders)):
            yield order


class Enders:
    """The connections of the enders, and a session that looks at the result."""

    def __init__(self, dsn: str, schema: str, sql: Session) -> None:
        self._dsn = dsn
        self._schema = schema
        self._sql = sql
        self._stack = AsyncExitStack()
        self._sessions: dict[int, Session] = {}

    async def of(self, ender: int) -> Session:
        """The connection of an ender; a new one after its death."""
        if ender not in self._sessions or self._sessions[ender].connection.is_closed():
            opened = session(self._dsn, self._schema)
            self._sessions[ender] = await self._stack.enter_async_context(opened)
        return self._sessions[ender]

    async def close(self) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def end(self, ender: int, job: int, finish: str) -> None:
        """Begin a transaction and end the job in it."""
        sql = await self.of(ender)
        await sql.execute("begin")
        if finish == "roll back to a savepoint":
            await sql.execute("savepoint before")
        await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
        if finish == "roll back to a savepoint":
            await sql.execute("rollback to savepoint before")

    async def finish(self, ender: int, finish: str) -> None:
        """End the transaction, and look after a commit."""
        sql = await self.of(ender)
        if finish == "die":
            pid = sql.connection.get_server_pid()
            await self._sql.rows("select pg_terminate_backend($1, 5000)", pid)
            sql.connection.terminate()
            return
        await sql.execute("rollback" if finish == "roll back" else "commit")
        if finish == "commit":
            await look(sql)


@pytest.fixture
async def enders(dsn: str, schema: str, sql: Session) -> AsyncIterator[Enders]:
    """Connections that end jobs."""
    made = Enders(dsn, schema, sql)
    yield made
    await made.close()


async def fault(enders: Enders, sql: Session, order: Order, finishes: Sequence[str]) -> str | None:
    """Play one order. Returns what went wrong; None if nothing did."""
    jobs = [await add(sql) for _ in finishes]
    waiter = await wait_for(sql, *jobs)
    open_jobs = set(jobs)
    for ender, act in order:
        if act == "end":
            await enders.end(ender, jobs[ender], finishes[ender])
        else:
            await enders.finish(ender, finishes[ender])
            if finishes[ender] in COMMITS:
                open_jobs.discard(jobs[ender])
        if open_jobs and (found := await state(sql, waiter)) != "pending":
            return f"{found} too early, after {ender} {act}"
    # What was rolled back is done once more, and each worker looks now and then.
    for job in sorted(open_jobs):
        await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
        await look(sql)
    await look(sql)
    if (found := await state(sql, waiter)) != "available":
        return f"{found} at the end"
    if (rest := await left(sql)) != (0, 0):
        return f"edges and closings are left: {rest}"
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", waiter)
    return None


async def faults(enders: Enders, sql: Session, cases: Sequence[tuple[Order, Sequence[str]]]) -> list[str]:
    """What went wrong in these cases, each with its order."""
    found: list[str] = []
    for order, finishes in cases:
        if said := await fault(enders, sql, order, finishes):
            found.append(f"{said}: {order} {finishes}")
            await sql.execute("delete from asyncq._jobs; delete from asyncq._waits; delete from asyncq._closings")
    return found


async def test_all_orders_of_two_enders_release_the_waiter_once(enders: Enders, sql: Session) -> None:
    """Both may cut the last two edges beside each other, and each sees that of the other one."""
    cases = list(product(orders(2), product(FINISHES, repeat=2)))

    assert [] == await faults(enders, sql, cases)
    assert [] == await broken_laws(sql)


async def test_orders_of_three_enders_release_the_waiter_once(enders: Enders, sql: Session) -> None:
    """A sample of the orders: the first one that sees no untouched edge need not be the last one that commits."""
    cases = list(product(orders(3), product(FINISHES, repeat=3)))
    chosen = random.Random(SEED).sample(cases, 80)

    assert [] == await faults(enders, sql, chosen)
    assert [] == await broken_laws(sql)

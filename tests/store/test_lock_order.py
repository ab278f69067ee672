"""Statements lock several jobs in the order of their ids. Otherwise two of them could deadlock.

The test is deterministic: a session locks the job in the middle. A statement that waits for it has locked the first
one, not the last.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from tests.sql.control.test_declare_limits import declare
from tests.store.test_isolation import waits
from tests.support import unique
from tests.support.jobs import add, fetch
from tests.support.keyed import Spec, add_all
from tests.support.session import Session, session
from tests.support.waiting import wait_until

NAMES = ("c", "b", "a")  # their index has another order than that of the ids
WORKER = 7
BY_INDEX = {"enable_seqscan": "off", "enable_bitmapscan": "off"}


async def _plain(sql: Session) -> list[int]:
    return [await add(sql) for _ in NAMES]


async def _running(sql: Session) -> list[int]:
    ids = await _plain(sql)
    await fetch(sql, worker=WORKER)
    return ids


async def _keyed(sql: Session) -> list[int]:
    return [done.id for done in await add_all(sql, [Spec(key=name) for name in NAMES])]


async def _unique(sql: Session) -> list[int]:
    return [await unique.hold(sql, "scheduled", task=name) for name in NAMES]


async def _reschedule(sql: Session, ids: list[int]) -> None:
    await sql.rows("select from asyncq.reschedule_jobs($1, priority := 1)", ids[::-1])


async def _cancel(sql: Session, ids: list[int]) -> None:
    await sql.rows("select from asyncq.cancel_jobs($1)", ids[::-1])


async def _unlock(sql: Session, _: list[int]) -> None:
    await sql.rows("select from asyncq.force_unlock_workers($1)", [str(WORKER)])


async def _add_keyed(sql: Session, _: list[int]) -> None:
    await add_all(sql, [Spec(key=name) for name in NAMES[::-1]])


async def _add_unique(sql: Session, _: list[int]) -> None:
    await unique.ask_all(sql, [unique.spec({}, task=name) for name in NAMES[::-1]])


CALLS: dict[str, tuple[Callable[[Session], Awaitable[list[int]]], Callable[[Session, list[int]], Awaitable[Any]]]] = {
    "a reschedule": (_plain, _reschedule),
    "a cancellation": (_running, _cancel),
    "a forced unlock": (_running, _unlock),
    "adds of job keys": (_keyed, _add_keyed),
    "adds under unique policies": (_unique, _add_unique),
}


@pytest.mark.parametrize("call", CALLS)
async def test_jobs_are_locked_in_the_order_of_their_ids(
    dsn: str, schema: str, sql: Session, other: Session, call: str
) -> None:
    """Neither the order of the arguments nor that of another index matters."""
    prepare, do = CALLS[call]
    ids = await prepare(sql)
    async with (
        session(dsn, schema, **BY_INDEX) as caller,
        anyio.create_task_group() as group,
        other.connection.transaction(),
    ):
        await other.rows("select from asyncq._jobs where id = $1 for update", ids[1])
        group.start_soon(do, caller, ids)
        await wait_until(lambda: waits(sql, caller.connection.get_server_pid()), description="the call to wait")
        free = await sql.values("select id from asyncq._jobs order by id for update skip locked")

    assert ids[2:] == free


GATES = "select from asyncq._partitions where id = asyncq._gate((id >> 48)::smallint) for update"
UPDATE = "update asyncq._limits set declared_by = 'x' where name = 'u'"


def _set(values: str) -> Callable[[Session], Awaitable[Any]]:
    return lambda sql: sql.rows(f"select asyncq.set_limit('t', {values})")


def _declare(**limits: dict[str, Any]) -> Callable[[Session], Awaitable[Any]]:
    return lambda sql: declare(sql, **{task: {**values} for task, values in limits.items()})


LIMITS: dict[str, tuple[str, Callable[[Session], Awaitable[Any]], Callable[[Session], Awaitable[Any]]]] = {
    "a task loses the limit that is set": (GATES, _declare(t={}), _set("unlimited => '{total}'")),
    "a limit is added beside the one that is set": (
        UPDATE,
        _declare(a={"total": 1}, t={"total": 3}),
        _set("total => 4"),
    ),
    "two services change a limit and add one": (
        GATES,
        _declare(t={"fair": True}, x={"total": 1}),
        _declare(u={"fair": True}, y={"total": 1}),
    ),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_limits_are_locked_before_the_partitions_and_the_table(
    dsn: str, schema: str, sql: Session, other: Session, case: str
) -> None:
    """Two calls wait at once, each with its first locks. When they go on, neither waits for the other one in turn."""
    held, *calls = LIMITS[case]
    await declare(sql, t={"total": 2}, u={"total": 2})
    async with (
        session(dsn, schema, deadlock_timeout="20ms") as first,
        session(dsn, schema, deadlock_timeout="20ms") as second,
        anyio.create_task_group() as group,
        other.connection.transaction(),
    ):
        await other.rows(held)
        for caller, call in zip((first, second), calls, strict=True):
            group.start_soon(call, caller)
            pid = caller.connection.get_server_pid()
            await wait_until(partial(waits, sql, pid), description="the call to wait")

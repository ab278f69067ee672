"""`_has_on_call`: whether a worker is on call now, whatever the caller's snapshot shows."""

import pytest

from tests.support.session import Session, session

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.mark.parametrize("level", LEVELS)
async def test_workers_that_went_on_call_after_the_snapshot_are_known_at_every_level(
    dsn: str, own: Session, level: str
) -> None:
    """Only READ COMMITTED would see a row in a table."""
    async with session(dsn, own.schema) as worker, own.connection.transaction(isolation=level.replace(" ", "_")):
        before = await own.value("select asyncq._has_on_call()")
        await worker.value("select pg_advisory_lock(asyncq._lock_space(), 0)")
        during = await own.value("select asyncq._has_on_call()")
        await worker.value("select pg_advisory_unlock(asyncq._lock_space(), 0)")
        after = await own.value("select asyncq._has_on_call()")

    assert [False, True, False] == [before, during, after]


async def test_the_caller_is_not_mistaken_for_a_worker_on_call(dsn: str, own: Session) -> None:
    """Many producers check at once. No lock of the check remains."""
    async with session(dsn, own.schema) as other, own.connection.transaction():
        await own.value("select asyncq._has_on_call()")
        held = await own.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")

        assert (0, False) == (held, await other.value("select asyncq._has_on_call()"))


async def test_a_turn_on_call_ends_with_its_connection(dsn: str, own: Session) -> None:
    """The server releases it, however the worker ended."""
    async with session(dsn, own.schema) as worker:
        await worker.rows("select * from asyncq._go_on_call(false)")
        there = await own.value("select asyncq._has_on_call()")

    assert there
    for _ in range(1000):
        if not await own.value("select asyncq._has_on_call()"):
            return
    raise AssertionError("a worker is still on call")

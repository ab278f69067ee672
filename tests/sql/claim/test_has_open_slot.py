"""`_has_open_slot`: whether a worker opens slots now, whatever the caller's snapshot shows."""

import pytest

from tests.support.handoffs import open_slot
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LEVELS = ["read committed", "repeatable read", "serializable"]
ASK = "select asyncq._has_open_slot()"


@pytest.mark.parametrize("level", LEVELS)
async def test_slots_that_were_opened_after_the_snapshot_are_known_at_every_level(
    dsn: str, own: Session, idle: Session, level: str
) -> None:
    """Only READ COMMITTED would see a row in a table."""
    async with session(dsn, own.schema) as asker, asker.connection.transaction(isolation=level.replace(" ", "_")):
        before = await asker.value(ASK)
        await open_slot(idle, 1)
        during = await asker.value(ASK)
        await idle.execute("select pg_advisory_unlock_all()")
        after = await asker.value(ASK)

    assert [False, True, False] == [before, during, after]


async def test_the_caller_is_not_mistaken_for_a_worker_with_a_slot(dsn: str, own: Session) -> None:
    """Many producers check at once. No lock of the check remains."""
    async with session(dsn, own.schema) as other, own.connection.transaction():
        await own.value(ASK)
        held = await own.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")

        assert (0, False) == (held, await other.value(ASK))


async def test_workers_with_slots_share_it_and_it_ends_with_the_last_of_them(
    dsn: str, own: Session, idle: Session
) -> None:
    """The server releases it, however the workers ended."""
    await open_slot(idle, 1)
    async with session(dsn, own.schema) as second:
        await open_slot(second, 2)
        await idle.execute("select pg_advisory_unlock_all()")
        assert await own.value(ASK)
    await wait_until(lambda: own.value(f"select not ({ASK})"), description="the connection to end")

"""`_outlived`: whether no session remains that may not have seen a mark."""

import pytest

from tests.support.session import Session, session
from tests.support.snapshots import young_snapshot
from tests.support.waiting import wait_until

OUTLIVED = "select asyncq._outlived(array[$1::text::xid8], clock_timestamp() + $2::text::interval)"


async def mark(sql: Session) -> str:
    """The number of a transaction that has ended."""
    return await sql.value("select pg_current_xact_id()::text")


@pytest.mark.parametrize(
    ("does", "level"),
    [
        ("select from asyncq._tasks", "read_committed"),
        ("select from asyncq.jobs", "read_committed"),
        ("select asyncq.add_job('t')", "read_committed"),
        ("select 1", "repeatable_read"),
        ("select 1", "serializable"),
    ],
)
async def test_it_waits_for_a_transaction_that_may_not_have_seen_the_mark(
    dsn: str, own: Session, does: str, level: str
) -> None:
    """One that has read the table, or that will read it with the snapshot that it has."""
    async with session(dsn, own.schema) as other:
        async with other.connection.transaction(isolation=level):
            await other.rows(does)
            marked = await mark(own)

            assert not await own.value(OUTLIVED, marked, "30 ms")

        async def is_over() -> bool:
            return await own.value(OUTLIVED, marked, "1 s")

        await wait_until(is_over, description="old snapshots to go", limit_s=30)


async def test_it_does_not_wait_for_sessions_that_have_seen_the_mark(dsn: str, own: Session) -> None:
    """Their snapshots are newer. Other locks that they hold do not use the name, and would be visible."""
    marked = await mark(own)

    async def is_over() -> bool:
        return await own.value(OUTLIVED, marked, "1 s")

    await wait_until(is_over, description="old snapshots to go", limit_s=30)
    async with session(dsn, own.schema) as other, young_snapshot(other, "repeatable_read"):
        await wait_until(is_over, description="snapshots of others to go", limit_s=20)


async def test_a_role_without_privileges_sees_old_snapshots(dsn: str, own: Session) -> None:
    """Otherwise it would treat every mark as seen by all."""
    role = f"stranger_{own.schema}"
    await own.execute(f"create role {role}; grant usage on schema asyncq to {role}")
    await own.execute(f"grant execute on all functions in schema asyncq to {role}")
    async with session(dsn, own.schema) as other, other.connection.transaction(isolation="repeatable_read"):
        await other.rows("select 1")
        marked = await mark(own)
        await own.execute(f"set role {role}")
        outlived = await own.value(OUTLIVED, marked, "30 ms")
        await own.execute(f"reset role; drop owned by {role}; drop role {role}")

    assert not outlived

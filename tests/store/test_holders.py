"""Sessions that keep dead rows from being removed: each kind is simulated, and is reported."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from asyncq import Client
from asyncq.domain.checkup import Holder
from asyncq.server import start
from asyncq.store.checkup import checkup
from asyncq.store.database import Database
from asyncq.testing import temporary_schema
from tests.support.replica import replica
from tests.support.roles import three_roles
from tests.support.session import Session, session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)
SETTINGS = {"max_prepared_transactions": "3", "wal_level": "replica", "max_wal_senders": "3", "autovacuum": "off"}
AT_ONCE, EVEN_YOUNG, MANY = 0.0, 0, 100
HIDDEN = 10**9


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """A server that no other test uses, with prepared transactions and standbys enabled."""
    with start(fsync=False, settings=SETTINGS) as server:
        yield server.dsn


async def holders(sql: Session, least_s: float = AT_ONCE, least_xids: int = EVEN_YOUNG) -> list[Holder]:
    """Everybody who holds the horizon."""
    return [Holder(*row) for row in await sql.run("holders", least_s, least_xids, MANY)]


def predictable(found: list[Holder]) -> list[tuple[Any, ...]]:
    """The fields of each holder that a test can predict."""
    return [(one.kind, one.pid, one.name, one.owner, one.state) for one in found]


async def test_an_idle_server_has_no_holders(alone: str) -> None:
    """The caller itself does not count."""
    async with temporary_schema(alone) as schema, session(alone, schema) as sql:
        assert [] == await holders(sql)


async def test_a_snapshot_that_is_held_is_named(alone: str) -> None:
    """The report has its process, program, role and state, and its age in seconds and in transactions."""
    async with (
        temporary_schema(alone) as schema,
        session(alone, schema) as sql,
        session(alone, schema, application_name="report") as report,
        report.connection.transaction(isolation="repeatable_read"),
    ):
        pid = await report.value("select pg_backend_pid()")
        for _ in range(3):
            await sql.execute("select asyncq.add_job('t')")
        found = await holders(sql)

    assert [("idle", pid, "report", "postgres", "idle in transaction")] == predictable(found)
    assert (True, True) == (found[0].xids >= 3, 0 < (found[0].held_s or 0) < 60)


async def test_a_statement_that_runs_for_long_is_named(alone: str) -> None:
    """It is no idle transaction: its client waits for it."""
    async with (
        temporary_schema(alone) as schema,
        session(alone, schema) as sql,
        session(alone, schema) as blocker,
        session(alone, schema, application_name="batch", lock_timeout="0") as batch,
    ):
        pid = await batch.value("select pg_backend_pid()")
        await blocker.execute("select pg_advisory_lock(77)")
        waiting = batch.connection.fetch("select pg_advisory_lock_shared(77)")
        async with asyncio.TaskGroup() as group:
            group.create_task(waiting)
            await wait_until(lambda: holders(sql), description="the statement to wait")
            found = await holders(sql)
            await blocker.execute("select pg_advisory_unlock(77)")

    assert [("transaction", pid, "batch", "postgres", "active")] == predictable(found)


async def test_a_transaction_that_sees_nothing_and_has_written_nothing_holds_nothing(alone: str) -> None:
    """An open transaction between two statements of READ COMMITTED: to accuse it would mislead."""
    async with (
        temporary_schema(alone) as schema,
        session(alone, schema) as sql,
        session(alone, schema) as idle,
    ):
        await idle.execute("begin")
        # By the simple protocol: a portal of the other one keeps its snapshot until the next statement.
        await idle.execute("select count(*) from asyncq._jobs")
        harmless = await holders(sql)
        await idle.execute("select asyncq.add_job('t')")
        written = await holders(sql)
        await idle.execute("rollback")

    assert ([], ["idle"]) == (harmless, [one.kind for one in written])


async def test_a_prepared_transaction_is_named(alone: str) -> None:
    """It has no process: nothing of it is seen in pg_stat_activity, and it outlives restarts."""
    async with temporary_schema(alone) as schema, session(alone, schema) as sql:
        await sql.execute("begin; insert into asyncq._tasks (identifier) values ('t'); prepare transaction 'forgotten'")
        try:
            found = await holders(sql)
        finally:
            await sql.execute("rollback prepared 'forgotten'")

    assert [("prepared", None, "forgotten", "postgres", None)] == predictable(found)
    assert "the prepared transaction forgotten (postgres), for " in str(found[0])


async def test_a_standby_with_feedback_is_named(alone: str) -> None:
    """A report on the standby holds the rows here."""
    async with temporary_schema(alone) as schema, session(alone, schema) as sql:
        oldest = await sql.value("select pg_current_xact_id()::text::int")
        with replica(alone, "standby1") as standby:
            standby.stream()
            standby.feed_back(oldest)
            await wait_until(lambda: holders(sql), description="the feedback")
            (found,) = await holders(sql)

    assert ("standby", "standby1", None) == (found.kind, found.name, found.held_s)


async def test_a_replication_slot_whose_standby_is_gone_is_named(alone: str) -> None:
    """It keeps its standby's last snapshot for ever."""
    async with temporary_schema(alone) as schema, session(alone, schema) as sql:
        oldest = await sql.value("select pg_current_xact_id()::text::int")
        try:
            with replica(alone, "standby2") as standby:
                standby.ask("CREATE_REPLICATION_SLOT left PHYSICAL RESERVE_WAL")
                standby.stream("left")
                standby.feed_back(oldest)
                await wait_until(lambda: holders(sql), description="the feedback")
                active = await holders(sql)
            await wait_until(
                lambda: sql.value("select not active from pg_replication_slots"), description="the standby to be away"
            )
            for _ in range(2):
                await sql.execute("select asyncq.add_job('t')")
            (found,) = await holders(sql)
        finally:
            await sql.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")

    assert ["active"] == [one.state for one in active]
    assert ("slot", None, "left", "inactive", True) == (
        found.kind,
        found.pid,
        found.name,
        found.state,
        found.xids >= 2,
    )


async def test_a_young_holder_is_not_reported(alone: str) -> None:
    """Each statement holds the horizon while it runs. If its time is hidden, its age in transactions decides."""
    async with (
        temporary_schema(alone) as schema,
        session(alone, schema) as sql,
        session(alone, schema) as report,
        report.connection.transaction(isolation="repeatable_read"),
    ):
        await report.value("select 1")
        young = await holders(sql, 3600.0)
        old = await holders(sql, AT_ONCE, HIDDEN)

    assert (0, 1) == (len(young), len(old))


async def test_a_role_without_the_right_sees_its_own_holders_and_a_hint(alone: str) -> None:
    """Activity of other roles is hidden, so an empty result proves nothing. `doctor` says so."""
    async with three_roles(alone) as roles, session(alone, roles.schema, application_name="secret") as report:
        dsn = roles.dsn_of(roles.worker)
        async with report.connection.transaction(isolation="repeatable_read"):
            await report.value("select 1")
            async with session(dsn, roles.schema) as sql:
                found = await holders(sql)
                blind = await checkup(Database(dsn, roles.schema), sql.connection)
    said = [one.said for one in blind.findings if one.check == "horizon"]

    assert ([], False) == (found, blind.sees_all)
    assert said[0].endswith("; what other roles do is hidden: grant pg_read_all_stats to see it")


async def test_dead_rows_are_reported_by_table(alone: str) -> None:
    """The server counts them when a session has been idle for a moment or has ended."""
    async with temporary_schema(alone) as schema, session(alone, schema) as sql:
        await sql.rows("select asyncq.add_job('t') from generate_series(1, 50)")
        await sql.execute("delete from asyncq._jobs")

        async def counted() -> bool:
            await sql.execute("select pg_stat_force_next_flush()")
            return any(row["dead"] for row in await sql.run("dead_rows"))

        if sql.connection.get_server_version().major < 15:
            pytest.skip("this server counts when it likes")
        await wait_until(counted, description="the counts")
        first, *_ = await sql.run("dead_rows")

    assert ("_jobs", 50, None) == (first["name"], first["dead"], first["vacuumed_at"])


async def test_the_cost_of_reading_the_first_jobs_grows_with_the_dead_rows_before_them(alone: str) -> None:
    """While a snapshot is held, no fetch can remove its dead index entries."""
    async with (
        temporary_schema(alone) as schema,
        session(alone, schema) as sql,
        session(alone, schema) as report,
        report.connection.transaction(isolation="repeatable_read"),
        Client(alone, schema=schema) as client,
    ):
        await client.add_job("t")
        tidy = (await client.admin.checkup()).first_jobs
        await report.value("select 1")
        for _ in range(2):
            await sql.rows("select asyncq.add_job('t', priority := -1) from generate_series(1, 2000)")
            await sql.execute("delete from asyncq._jobs where priority = -1")
        held = (await client.admin.checkup()).first_jobs

    assert (1, 1) == (tidy.jobs, held.jobs)
    assert (True, True) == (tidy.blocks <= tidy.needed, held.blocks > 10 * tidy.blocks)

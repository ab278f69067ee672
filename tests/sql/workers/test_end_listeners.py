"""`_end_listeners`: the LISTEN connection of a dead worker does not fill the notification queue of the server."""

import pytest

from tests.sql.workers.test_end_transactions import two_logins
from tests.support.session import Session, session
from tests.support.waiting import wait_until

AT_A_GLANCE = False
SILENT = "update asyncq._workers set last_seen = last_seen - lease - interval '1 s' where id = $1"


async def worker(sql: Session) -> int:
    """Register a worker. Returns its id."""
    (row,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    return row["id"]


@pytest.mark.parametrize("slots", [False, True])
async def test_a_rescue_ends_the_listen_connection_of_each_worker_that_it_declares_dead(
    dsn: str, own: Session, *, slots: bool
) -> None:
    """It may have a slot or not. Connections of other workers stay."""
    dead, alive = await worker(own), await worker(own)
    async with session(dsn, own.schema) as gone, session(dsn, own.schema) as stays:
        for ear, of in ((gone, dead), (stays, alive)):
            await ear.run("lock_listener", of)
            if slots:
                await ear.run("open_slot", of, 1, 0, "{1}", "{1}", "asyncq:secret", True)  # noqa: FBT003
        await own.rows(SILENT, dead)
        await own.run("rescue_jobs", AT_A_GLANCE, None)
        await wait_until(gone.connection.is_closed, description="the end of the connection to arrive")

        assert 1 == await stays.value("select 1")
    await own.execute("delete from asyncq._batches; delete from asyncq._workers")


async def test_a_rescue_ends_no_connection_of_a_worker_that_it_declared_dead_before(dsn: str, own: Session) -> None:
    """The worker may have registered again on the same connection, while a claim of its old id is still held."""
    dead = await worker(own)
    await own.rows(SILENT, dead)
    await own.rows("update asyncq._workers set died_at = clock_timestamp()")
    async with session(dsn, own.schema) as ear:
        await ear.run("lock_listener", dead)
        await own.run("rescue_jobs", AT_A_GLANCE, None)

        assert 1 == await ear.value("select 1")


async def test_a_role_without_the_right_to_end_a_connection_rescues_all_the_same(dsn: str, own: Session) -> None:
    """A warning explains why the notification queue fills."""
    said: list[str] = []
    dead = await worker(own)
    await own.rows(SILENT, dead)
    async with (
        two_logins(own) as (one, two),
        session(dsn, own.schema, user=one) as ear,
        session(dsn, own.schema, user=two) as other,
    ):
        await ear.run("lock_listener", dead)
        other.connection.add_log_listener(lambda _, notice: said.append(notice.message))
        await other.run("rescue_jobs", AT_A_GLANCE, None)
        await wait_until(lambda: bool(said), description="the warning")
        pid, left = ear.connection.get_server_pid(), await own.rows("select from asyncq._workers")

    what = f"the LISTEN connection of worker {dead} (server process {pid}) cannot be ended by role {two}"
    assert ([what], []) == (said, left)

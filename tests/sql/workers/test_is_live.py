"""`_is_live`: the last beat of the worker is within its lease."""

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(("silent", "live"), [("0", True), ("29 s", True), ("31 s", False)])
async def test_a_worker_lives_for_its_lease_after_its_last_beat(sql: Session, silent: str, live: bool) -> None:
    """Afterwards any other worker takes its jobs."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.rows("update asyncq._workers set last_seen = clock_timestamp() - $1::text::interval", silent)

    assert live is await sql.value("select asyncq._is_live(worker) from asyncq._workers as worker")


@pytest.mark.parametrize(
    ("doubted", "locks", "since", "live"),
    [
        ("0.9 s", True, "-infinity", True),
        ("1.1 s", True, "-infinity", False),
        ("1.1 s", False, "-infinity", True),
        ("1.1 s", True, "now", True),
    ],
)
async def test_a_worker_whose_lock_is_free_lives_for_the_grace(
    sql: Session, doubted: str, locks: bool, since: str, live: bool
) -> None:
    """A free lock counts only if the worker uses locks, and the server is older than the lease."""
    await sql.execute(f"""
        create or replace function asyncq._locks_since() returns timestamptz language sql volatile
        as $$ select '{since}'::timestamptz $$""")
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.rows(
        "update asyncq._workers set locks = $2, doubted_at = clock_timestamp() - $1::text::interval", doubted, locks
    )

    assert live is await sql.value("select asyncq._is_live(worker) from asyncq._workers as worker")


@pytest.mark.parametrize(("since", "live"), [("9 s", True), ("11 s", False)])
async def test_no_worker_is_dead_while_the_server_has_just_returned(sql: Session, since: str, live: bool) -> None:
    """A worker could not prove that it lives while there was no server."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.rows("update asyncq._workers set last_seen = clock_timestamp() - interval '1 day'")
    await sql.rows("update asyncq._server_runs set since = clock_timestamp() - $1::text::interval", since)

    assert live is await sql.value("select asyncq._is_live(worker) from asyncq._workers as worker")


async def test_a_worker_that_was_declared_dead_stays_dead_when_the_server_has_just_returned(sql: Session) -> None:
    """Other workers may already run its jobs."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.rows("update asyncq._workers set died_at = clock_timestamp()")
    await sql.execute("delete from asyncq._server_runs")

    assert not await sql.value("select asyncq._is_live(worker) from asyncq._workers as worker")

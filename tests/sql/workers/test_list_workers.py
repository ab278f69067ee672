"""`_list_workers`: the workers and their states."""

import pytest

from tests.support.jobs import add, fetch
from tests.support.session import Session


async def worker(sql: Session) -> int:
    """Register a worker. Returns its id."""
    (row,) = await sql.run("register_worker", 30.0, 12, 5, "h", ["a", "b"], 0, None, [])
    return row["id"]


async def test_a_worker_is_listed_with_its_running_jobs(sql: Session) -> None:
    """An administrator needs this when jobs do not run."""
    first, second = await worker(sql), await worker(sql)
    for _ in range(2):
        await add(sql)
    await fetch(sql, 2, worker=second)
    rows = await sql.run("list_workers")

    assert [(first, 0), (second, 2)] == [(row["id"], row["running"]) for row in rows]
    assert ("h", 12, "live", 5, 30.0, False, ["a", "b"]) == tuple(
        rows[0][name] for name in ("host", "pid", "state", "concurrency", "lease_s", "locks", "tasks")
    )


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ("last_seen = clock_timestamp() - interval '31 s'", "dead"),
        ("locks = true, doubted_at = clock_timestamp()", "doubted"),
        ("locks = false, doubted_at = clock_timestamp()", "live"),
    ],
)
async def test_a_worker_has_a_state(sql: Session, change: str, state: str) -> None:
    """A worker that is doubted lives until the grace is over."""
    await worker(sql)
    await sql.execute(f"update asyncq._workers set {change}")

    assert [state] == [row["state"] for row in await sql.run("list_workers")]


async def test_a_worker_without_a_row_that_holds_claims_is_listed_too(sql: Session) -> None:
    """Otherwise nobody could name it to free the claims."""
    await add(sql)
    await fetch(sql, worker=77)
    (row,) = await sql.run("list_workers")

    assert (77, None, "unknown", 1) == (row["id"], row["host"], row["state"], row["running"])

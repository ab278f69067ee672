"""`_is_responsive`: a job is handed only to a worker that has missed at most one beat."""

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(
    ("change", "is_responsive"),
    [
        ("stuck = '{}'", True),
        ("last_seen = clock_timestamp() - interval '19 s'", True),
        ("last_seen = clock_timestamp() - interval '21 s'", False),
        ("doubted_at = clock_timestamp()", False),
        ("died_at = clock_timestamp()", False),
    ],
)
async def test_a_worker_is_responsive_until_it_has_missed_two_beats(
    sql: Session, change: str, *, is_responsive: bool
) -> None:
    """It beats three times a lease. Later it is frozen, cut off or dead, and a job would wait for its rescue."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.execute(f"update asyncq._workers set {change}")

    assert is_responsive is await sql.value("select asyncq._is_responsive(worker) from asyncq._workers as worker")

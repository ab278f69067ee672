"""`_is_live`: the worker was heard of within its lease."""

import pytest

from tests.sql.session import Session


@pytest.mark.parametrize(("silent", "live"), [("0", True), ("29 s", True), ("31 s", False)])
async def test_a_worker_lives_for_its_lease_after_its_last_beat(sql: Session, silent: str, live: bool) -> None:
    """After that any other one takes its jobs."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [])
    await sql.rows("update asyncq._workers set last_seen = clock_timestamp() - $1::text::interval", silent)

    assert live is await sql.value("select asyncq._is_live(worker) from asyncq._workers as worker")

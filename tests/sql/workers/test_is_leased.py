"""`_is_leased`: the last beat of the worker is within its lease."""

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(("silent", "leased"), [("0", True), ("29 s", True), ("31 s", False)])
async def test_a_lease_begins_anew_with_each_beat(sql: Session, silent: str, leased: bool) -> None:
    """Whatever is known of the lock."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0)
    await sql.rows("update asyncq._workers set last_seen = clock_timestamp() - $1::text::interval", silent)

    assert leased is await sql.value("select asyncq._is_leased(worker) from asyncq._workers as worker")

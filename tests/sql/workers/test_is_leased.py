"""`_is_leased`: the last beat of the worker is within its lease."""

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(("silent", "leased"), [("0", True), ("29 s", True), ("31 s", False)])
async def test_a_lease_is_extended_by_each_beat(sql: Session, silent: str, leased: bool) -> None:
    """The state of the lock does not matter."""
    await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.rows("update asyncq._workers set last_seen = clock_timestamp() - $1::text::interval", silent)

    assert leased is await sql.value("select asyncq._is_leased(worker) from asyncq._workers as worker")

"""`_has_just_returned`: whether the server started so recently that silence proves nothing."""

import pytest

from tests.support.session import Session


@pytest.mark.parametrize(("since", "returned"), [("9 s", True), ("11 s", False)])
async def test_a_server_has_just_returned_for_ten_seconds(sql: Session, since: str, returned: bool) -> None:
    """Its start may be old, for example after a promotion."""
    await sql.rows("update asyncq._server_runs set since = clock_timestamp() - $1::text::interval", since)

    assert returned is await sql.value("select asyncq._has_just_returned()")


async def test_an_unrecorded_run_of_the_server_has_just_begun(sql: Session) -> None:
    """After a crash or a promotion the table is empty until the first worker returns."""
    await sql.execute("delete from asyncq._server_runs")

    assert await sql.value("select asyncq._has_just_returned()")

"""`_is_ready`: nobody runs the job, and an attempt is left."""

import pytest

from tests.support.keyed import STATES, hold
from tests.support.session import Session


@pytest.mark.parametrize("state", STATES)
async def test_what_waits_is_ready(sql: Session, state: str) -> None:
    """For its time, for its retry or for a worker; what runs or is discarded is not."""
    await hold(sql, state)

    assert (state not in ("active", "discarded")) is await sql.value(
        "select asyncq._is_ready(job) from asyncq._jobs as job"
    )

"""`_is_ready`: whether the job does not run, and an attempt is left."""

import pytest

from tests.support.keyed import STATES, hold
from tests.support.session import Session


@pytest.mark.parametrize("state", STATES)
async def test_a_waiting_job_is_ready(sql: Session, state: str) -> None:
    """Running and discarded jobs are not ready."""
    await hold(sql, state)

    assert (state not in ("active", "discarded")) is await sql.value(
        "select asyncq._is_ready(job) from asyncq._jobs as job"
    )

"""`_is_discarded`: whether no attempt is left, and the job does not run."""

import pytest

from tests.support.keyed import STATES, hold
from tests.support.session import Session


@pytest.mark.parametrize("state", STATES)
async def test_discarded_jobs_are_those_that_are_neither_ready_nor_running(sql: Session, state: str) -> None:
    """The function agrees with the state."""
    await hold(sql, state)
    row = await sql.row("""
        select asyncq._is_discarded(job) as failed, asyncq._state(job) = 'discarded' as discarded,
          asyncq._is_ready(job) and asyncq._is_discarded(job) as both
        from asyncq._jobs as job""")

    assert (state == "discarded", state == "discarded", False) == tuple(row)

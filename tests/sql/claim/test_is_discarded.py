"""`_is_discarded`: no attempt is left, and nobody runs the job."""

import pytest

from tests.support.keyed import STATES, hold
from tests.support.session import Session


@pytest.mark.parametrize("state", STATES)
async def test_what_is_discarded_has_failed(sql: Session, state: str) -> None:
    """And nothing else: of the rows that are not ready it is what does not run."""
    await hold(sql, state)
    row = await sql.row("""
        select asyncq._is_discarded(job) as failed, asyncq._state(job) = 'discarded' as discarded,
          asyncq._is_ready(job) and asyncq._is_discarded(job) as both
        from asyncq._jobs as job""")

    assert (state == "discarded", state == "discarded", False) == tuple(row)

"""`_is_due`: whether the job's time has come."""

import pytest

from tests.support.jobs import add
from tests.support.session import Session


@pytest.mark.parametrize(("moment", "due"), [("- interval '1 us'", False), ("", True), ("+ interval '1 us'", True)])
async def test_a_job_is_due_from_its_time_on(sql: Session, moment: str, due: bool) -> None:
    """The time counts to the microsecond."""
    await add(sql)

    assert due is await sql.value(f"select asyncq._is_due(job, now() {moment}) from asyncq._jobs as job")

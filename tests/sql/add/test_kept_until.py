"""`_kept_until`: until when an ended job has to be known; the policies are tested with the table of unique jobs."""

from typing import Any

import pytest

from tests.support.session import Session

UNTIL = "select asyncq._kept_until($1, $2, $3, $4::text::jsonb, '2026-03-01 00:00:00+00')::text"
DAY = {"window_s": 86400}


@pytest.mark.parametrize(
    ("extra", "until"),
    [
        ({}, None),
        ({"states": ["active"], "period": "P1D"}, None),
        ({"states": ["cancelled"], "period": "P1D"}, "2026-03-02 00:00:00+00"),
        ({"states": ["active", "discarded"], "period": None}, "infinity"),
        (DAY, "2026-03-02 00:00:00+00"),
        (DAY | {"window_s": 1.5}, "2026-03-01 00:00:01.5+00"),
        (DAY | {"states": ["completed"], "period": "PT1H"}, "2026-03-02 00:00:00+00"),
        (DAY | {"states": ["completed"], "period": "P1M"}, "2026-04-01 00:00:00+00"),
        (DAY | {"states": ["active"], "period": "P1M"}, "2026-03-02 00:00:00+00"),
        ({"extras": '{"keep_s": 60}'}, "-infinity"),
        ({"extras": '{"keep_s": 0, "timeout_s": 5}'}, None),
        (DAY | {"extras": '{"keep_s": 60}'}, "2026-03-02 00:00:00+00"),
    ],
    ids=str,
)
async def test_a_job_is_kept_for_the_longest_period_that_is_requested(
    sql: Session, extra: dict[str, Any], until: str | None
) -> None:
    """The policy and a repeatable request may both keep it."""
    await sql.execute("set local timezone = 'UTC'")

    assert until == await sql.value(UNTIL, *(extra.get(name) for name in ("states", "period", "window_s", "extras")))

"""`_limit_at`: when a job expires, by the options of its add."""

import pytest

from tests.support.session import Session

CALL = """
select asyncq._limit_at({expires_at}, {expires_s}, {run_at}, timestamptz '2026-01-01 00:00Z')
  = timestamptz '2026-01-01 {expected}Z'
"""


@pytest.mark.parametrize(
    ("expires_at", "expires_s", "run_at", "expected"),
    [
        ("null", "null", "null", None),
        ("null", "90", "null", "00:01:30"),
        ("null", "90", "timestamptz '2026-01-01 05:00Z'", "05:01:30"),
        ("null", "90", "timestamptz '2025-01-01 05:00Z'", "00:01:30"),
        ("timestamptz '2026-01-01 03:00Z'", "null", "timestamptz '2026-01-01 05:00Z'", "03:00"),
    ],
)
async def test_seconds_count_from_the_add_or_from_a_later_run_at(
    sql: Session, expires_at: str, expires_s: str, run_at: str, expected: str | None
) -> None:
    """A job that is added for tomorrow would otherwise never run."""
    found = await sql.value(
        CALL.format(expires_at=expires_at, expires_s=expires_s, run_at=run_at, expected=expected or "00:00")
    )

    assert (None if expected is None else True) == found

"""`_utc`: a moment as text that any program reads."""

import pytest

from tests.support.session import Session

MOMENTS = [
    ("2030-01-31 04:00:00+02", "2030-01-31T02:00:00.000000Z"),
    ("0001-01-01 00:00:00+00", "0001-01-01T00:00:00.000000Z"),
    ("9999-12-31 23:59:59.999999+00", "9999-12-31T23:59:59.999999Z"),
    (None, None),
]


@pytest.mark.parametrize(("moment", "expected"), MOMENTS)
async def test_a_moment_is_text_with_all_its_digits(sql: Session, moment: str | None, expected: str | None) -> None:
    """The cases include the limits of a job's time."""
    assert expected == await sql.value("select asyncq._utc($1::text::timestamptz)", moment)

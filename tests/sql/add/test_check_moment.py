"""`_check_moment`: an option that is a time has a time zone."""

import pytest

from tests.support.session import Session

CHECK = "select asyncq._check_moment('expires_at', $1::text::jsonb)"


@pytest.mark.parametrize(
    "written",
    [
        "2030-01-31T04:00:00Z",
        "2030-01-31 04:00:00+00",
        "2030-01-31T04:00:00.5-05:30",
        "2030-01-31 04:00 UTC",
        "9999-12-31T00:00Z",
    ],
)
async def test_a_time_with_a_zone_is_taken(sql: Session, written: str) -> None:
    """These are the forms that programs write."""
    assert "" == str(await sql.value(CHECK, f'"{written}"') or "")


@pytest.mark.parametrize(
    "written",
    [
        '"2030-01-31T04:00:00"',
        '"2030-01-31"',
        '"tomorrow"',
        '"infinity"',
        '"2030-13-31T04:00:00Z"',
        '"x0Z"',
        "17",
        "true",
        "[]",
    ],
)
async def test_a_time_without_a_zone_or_another_value_is_refused(sql: Session, written: str) -> None:
    """The zone of the session would decide."""
    error = await sql.refusal(CHECK, written)

    said = "expires_at must be a time with a time zone, such as 2030-01-31T04:00:00Z, got "
    assert ("22007", "expires_at", said + written) == (error.sqlstate, error.column_name, error.message)


@pytest.mark.parametrize("written", ["10000-01-01T00:00:00Z", "0044-03-15 12:00:00+00 BC"])
async def test_a_year_that_python_cannot_hold_is_refused(sql: Session, written: str) -> None:
    """It is the range of run_at."""
    assert (await sql.refusal(CHECK, f'"{written}"')).sqlstate in ("22007", "22008")

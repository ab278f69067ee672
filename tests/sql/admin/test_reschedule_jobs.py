"""`reschedule_jobs`: times and limits of jobs that do not run; null means unchanged, 0 is a value."""

from typing import Any

import pytest

from tests.support.jobs import add, fetched
from tests.support.keyed import hold, stored
from tests.support.session import Session

RESCHEDULE = "select * from asyncq.reschedule_jobs($1, {0})"

FIELDS = [
    ("run_at := now() + interval '2 h'", "run_at"),
    ("run_at := '2001-01-01 00:00:00+00'", "run_at"),
    ("priority := 0", "priority"),
    ("priority := -32768", "priority"),
    ("attempts := 0", "attempts"),
    ("attempts := 32767", "attempts"),
    ("max_attempts := 1", "max_attempts"),
    ("max_attempts := 32767", "max_attempts"),
]


@pytest.mark.parametrize("state", ["scheduled", "available", "retryable", "discarded"])
@pytest.mark.parametrize(("given", "field"), FIELDS)
async def test_only_given_fields_are_changed(sql: Session, state: str, given: str, field: str) -> None:
    """last_error and revision stay, since it is no new request."""
    job = await hold(sql, state)
    expected = await sql.value(f"select {given.partition(':= ')[2]}")
    if field == "run_at":
        expected = await sql.value(f"select ({given.partition(':= ')[2]})::timestamptz")
    (row,) = await sql.rows(RESCHEDULE.format(given), [job["id"]])
    now = await sql.value("select now()")

    assert {**job, field: expected, "updated_at": now} == (await stored(sql))[job["id"]]
    assert expected == row[field]


async def test_nothing_given_changes_nothing_but_the_time_of_the_change(sql: Session) -> None:
    """graphile-worker does the same. A missing run_at does not mean now."""
    job = await hold(sql, "retryable")
    (row,) = await sql.rows("select * from asyncq.reschedule_jobs($1)", [job["id"]])
    now = await sql.value("select now()")

    assert {**job, "updated_at": now} == (await stored(sql))[job["id"]]
    assert job["id"] == row["id"]


async def test_everything_is_set_at_once(sql: Session) -> None:
    """The positional arguments have graphile's order."""
    job = await hold(sql, "scheduled")
    await sql.rows("select asyncq.reschedule_jobs($1, now(), 5, 3, 9)", [job["id"]])
    row = (await stored(sql))[job["id"]]

    assert (await sql.value("select now()"), 5, 3, 9) == tuple(
        row[name] for name in ("run_at", "priority", "attempts", "max_attempts")
    )


@pytest.mark.parametrize("given", ["attempts := 0", "attempts := 6", "max_attempts := 8"])
async def test_a_job_that_is_discarded_is_revived(sql: Session, given: str) -> None:
    """It gets fewer attempts, or a higher limit."""
    job = await hold(sql, "discarded")
    await sql.rows(RESCHEDULE.format(f"run_at := now(), {given}"), [job["id"]])

    assert [job["id"]] == await fetched(sql)


@pytest.mark.parametrize("given", ["attempts := 7", "attempts := 8", "max_attempts := 2"])
async def test_attempts_that_are_used_up_end_a_job(sql: Session, given: str) -> None:
    """More attempts than allowed also discard it, for every query."""
    job = await hold(sql, "retryable")
    await sql.rows(RESCHEDULE.format(given), [job["id"]])

    assert "discarded" == await sql.value("select asyncq._state(job) from asyncq._jobs as job")


BROKEN: list[tuple[str, str, str]] = [
    ("max_attempts := 0", "GWBMA", "max_attempts"),
    ("max_attempts := 32768", "GWBMA", "max_attempts"),
    ("priority := 32768", "22003", "priority"),
    ("priority := -32769", "22003", "priority"),
    ("attempts := -1", "22003", "attempts"),
    ("attempts := 32768", "22003", "attempts"),
    ("run_at := 'infinity'", "22008", "run_at"),
    ("run_at := '-infinity'", "22008", "run_at"),
    ("run_at := '10000-01-01 00:00:00+00'", "22008", "run_at"),
]


@pytest.mark.parametrize(("given", "code", "field"), BROKEN)
@pytest.mark.parametrize("ids", [[1], [], None])
async def test_a_value_out_of_range_is_refused(sql: Session, given: str, code: str, field: str, ids: Any) -> None:
    """The error has the field, even if the job does not exist."""
    error = await sql.refusal(RESCHEDULE.format(given), ids)

    assert (code, field) == (error.sqlstate, error.column_name)


@pytest.mark.parametrize(
    ("arguments", "is_left"), [("run_at := now()", True), ("attempts := 0", False), ("max_attempts := 30", False)]
)
async def test_more_attempts_end_a_deadline(sql: Session, arguments: str, is_left: bool) -> None:
    """A job that was discarded at its deadline would be discarded again."""
    job = await add(sql)
    await sql.execute("update asyncq._jobs set deadline_at = now()")
    await sql.rows(f"select asyncq.reschedule_jobs(array[{job}], {arguments})")

    assert is_left == await sql.value("select deadline_at is not null from asyncq._jobs")

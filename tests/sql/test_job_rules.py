"""The checks of `_jobs`: a row that a worker could not decode, or whose claim has no owner, is not stored."""

import json

import pytest

from tests.support.session import Session

INSERT = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, {0})
values (now(), now(), now(), 1, '{{}}', {1})"""

# Columns, values -> the rule that they break.
BROKEN = {
    ("attempts", "-1"): "jobs_attempts_check",
    ("max_attempts", "0"): "jobs_attempts_check",
    ("locked_by", "1"): "jobs_claim_check",
    ("locked_at", "now()"): "jobs_claim_check",
    ("lock_token", "1"): "jobs_claim_check",
    ("locked_by, locked_at", "1, now()"): "jobs_claim_check",
    ("locked_by, lock_token", "1, 1"): "jobs_claim_check",
    ("locked_at, lock_token", "now(), 1"): "jobs_claim_check",
    ("cancelled_at", "now()"): "jobs_running_check",
    ("rerun", "'{}'"): "jobs_running_check",
}
SOUND = [
    ("attempts", "0"),
    ("max_attempts", "1"),
    ("locked_by, locked_at, lock_token, cancelled_at, rerun", "1, now(), 1, now(), '{}'"),
]
ids = [f"{columns} {values}" for columns, values in BROKEN]


@pytest.mark.parametrize("case", BROKEN, ids=ids)
async def test_a_row_that_breaks_a_rule_is_not_inserted(sql: Session, case: tuple[str, str]) -> None:
    """A statement that is written by hand must not break the workers."""
    error = await sql.refusal(INSERT.format(*case))

    assert ("23514", BROKEN[case]) == (error.sqlstate, error.constraint_name)
    assert (sql.schema, "_jobs") == (error.schema_name, error.table_name)


@pytest.mark.parametrize("case", BROKEN, ids=ids)
async def test_a_row_that_would_break_a_rule_is_not_changed(sql: Session, case: tuple[str, str]) -> None:
    """An update is checked as an insert is."""
    await sql.execute("select asyncq.add_job('t')")
    columns, values = case
    error = await sql.refusal(f"update asyncq._jobs set ({columns}) = row({values})")

    assert ("23514", BROKEN[case]) == (error.sqlstate, error.constraint_name)


async def test_a_row_that_just_keeps_the_rules_is_stored(sql: Session) -> None:
    """The limits themselves are allowed."""
    for case in SOUND:
        await sql.execute(INSERT.format(*case))

    assert len(SOUND) == await sql.value("select count(*) from asyncq._jobs")


async def test_a_time_that_a_worker_cannot_hold_is_not_stored(sql: Session) -> None:
    """Infinity and years beyond Python's would break the fetch of every worker, again and again."""
    times = ("-infinity", "infinity", "0001-12-31 BC", "10000-01-01 00:00:00+00")
    insert = """
        insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload)
        values ($1::text::timestamptz, now(), now(), 1, '{}')"""
    names = [(await sql.refusal(insert, time)).constraint_name for time in times]

    assert ["jobs_run_at_check"] * len(times) == names
    for time in ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"):
        await sql.rows(insert, time)


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [("queue_name", "q" * 129, "GWBQN"), ("job_key", "", "GWBJK"), ("job_key", "k" * 513, "GWBJK")],
    ids=["queue", "no key", "key"],
)
async def test_each_add_refuses_a_length_that_no_check_refuses(
    sql: Session, column: str, value: str, code: str
) -> None:
    """The functions alone know these limits."""
    spec = json.dumps({"identifier": "t", column: value})
    adds = {
        f"select asyncq.add_job('t', {column} := $1)": value,
        "select asyncq.add_jobs(array[json_populate_record(null::asyncq.job_spec, $1::text::json)])": spec,
        "select asyncq.enqueue($1::text::json)": spec,
    }
    errors = [await sql.refusal(text, given) for text, given in adds.items()]

    assert [(code, column)] * 3 == [(error.sqlstate, error.column_name) for error in errors]
    assert [] == await sql.values("select id from asyncq._jobs")

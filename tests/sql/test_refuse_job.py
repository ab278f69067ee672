"""`_refuse_job` and the index `jobs_rules`, whose predicate calls it: what no row of `_jobs` may be."""

import pytest

from tests.sql.session import Session

INSERT = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, {0})
values (now(), now(), now(), 1, '{{}}', {1})"""

# Columns, values -> the rule that they break.
BROKEN = {
    ("attempts", "-1"): "jobs_attempts_check",
    ("max_attempts", "0"): "jobs_max_attempts_check",
    ("queue", "repeat('q', 129)"): "jobs_queue_check",
    ("key", "''"): "jobs_key_check",
    ("key", "repeat('k', 513)"): "jobs_key_check",
    ("unique_key", "'\\x00'"): "jobs_unique_key_check",
    ("locked_by", "1"): "jobs_claim_check",
    ("locked_at", "now()"): "jobs_claim_check",
    ("lock_token", "1"): "jobs_claim_check",
    ("locked_by, locked_at", "1, now()"): "jobs_claim_check",
    ("locked_by, lock_token", "1, 1"): "jobs_claim_check",
    ("locked_at, lock_token", "now(), 1"): "jobs_claim_check",
    ("cancelled_at", "now()"): "jobs_running_check",
    ("rerun", "'{}'"): "jobs_running_check",
    ("keep_until", "now()"): "jobs_kept_check",
    ("keep_states", "'{}'"): "jobs_kept_check",
}
SOUND = [
    ("attempts", "0"),
    ("max_attempts", "1"),
    ("queue", "repeat('q', 128)"),
    ("key", "'k'"),
    ("key", "repeat('k', 512)"),
    ("unique_key", "sha256('')"),
    ("locked_by, locked_at, lock_token, cancelled_at, rerun", "1, now(), 1, now(), '{}'"),
    ("keep_until, keep_states", "now(), '{}'"),
]
ids = [f"{columns} {values}" for columns, values in BROKEN]


@pytest.mark.parametrize("case", BROKEN, ids=ids)
async def test_a_row_that_breaks_a_rule_is_not_inserted(sql: Session, case: tuple[str, str]) -> None:
    """Who writes into the table by hand must not break the workers; what is refused, and why, is told as by a check."""
    error = await sql.refusal(INSERT.format(*case))

    assert ("23514", BROKEN[case]) == (error.sqlstate, error.constraint_name)
    assert (sql.schema, "_jobs") == (error.schema_name, error.table_name)


@pytest.mark.parametrize("case", BROKEN, ids=ids)
async def test_a_row_that_would_break_a_rule_is_not_changed(sql: Session, case: tuple[str, str]) -> None:
    """Also where its place, and all other columns, stay as they are."""
    await sql.execute("select asyncq.add_job('t')")
    columns, values = case
    error = await sql.refusal(f"update asyncq._jobs set ({columns}) = row({values})")

    assert ("23514", BROKEN[case]) == (error.sqlstate, error.constraint_name)


async def test_what_breaks_no_rule_by_a_hair_is_stored(sql: Session) -> None:
    """And the index stays empty: its predicate holds of no row."""
    for case in SOUND:
        await sql.execute(INSERT.format(*case))
    pages = await sql.value("select pg_relation_size('asyncq.jobs_rules') / current_setting('block_size')::int")

    assert len(SOUND) == await sql.value("select count(*) from asyncq._jobs")
    assert pages == 1  # what says that there are none


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


async def test_the_rules_stand_in_a_database_that_was_restored(sql: Session) -> None:
    """The index is built again over rows that are there: one that breaks a rule is found."""
    definition = await sql.value("select pg_get_indexdef('asyncq.jobs_rules'::regclass)")
    await sql.execute("drop index asyncq.jobs_rules")
    await sql.execute(INSERT.format("attempts", "-1"))

    assert "jobs_attempts_check" == (await sql.refusal(definition)).constraint_name

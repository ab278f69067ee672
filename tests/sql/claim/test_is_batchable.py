"""`_is_batchable`: whether a batch has room for all that a job is."""

import pytest

from tests.support.jobs import add, fetched
from tests.support.session import Session

MORE = {
    "a key": "key = 'k'",
    "a unique key": "unique_key = sha256('k')",
    "to be kept": "keep_until = now() + interval '1 h', keep_states = '{completed}'",
    "flags": "flags = '{\"f\": true}'",
    "an end of all attempts": "deadline_at = now() + interval '1 h'",
    "a time by which it has to start": "expires_at = now() + interval '1 h'",
    "options that few jobs have": "extras = '{\"timeout_s\": 30}'",
    "a failed attempt": "attempts = 1",
    "an interruption": "interruptions = 1",
    "a revision": "revision = 1",
    "an error": "last_error = 'e'",
    "changed since it was added": "updated_at = updated_at + interval '1 s'",
    "a large payload": "payload = (select json_agg(md5(i::text)) from generate_series(1, 40) as i)",
    "a large meta": "meta = (select jsonb_object_agg(i, md5(i::text)) from generate_series(1, 40) as i)",
    "a large payload of a few bytes": "payload = to_json(repeat('x', 3000))",
}


async def test_a_job_that_was_only_added_is_batchable(sql: Session) -> None:
    """This includes its own priority, due time, number of attempts and meta."""
    job = await add(sql, priority=3, run_at="asyncq.now() - interval '1 h'", max_attempts=2)
    await sql.execute("update asyncq._jobs set payload = to_json(repeat('x', 900)), meta = '{\"m\": 1}'")

    assert await sql.value("select asyncq._is_batchable(job) from asyncq._jobs as job")
    assert [job] == await fetched(sql, form="batched")
    assert 1 == await sql.value("select count(*) from asyncq._batches")


async def test_every_column_of_jobs_is_in_a_batch_or_keeps_its_job_out_of_batches(sql: Session) -> None:
    """A new column would otherwise be lost in a batch."""
    columns = "select column_name::text from information_schema.columns where table_schema = $1 and table_name = $2"
    held = {"id", *await sql.values(columns, sql.schema, "_batches")} - {"ids", "unsettled"}
    refused = {text.partition(" =")[0] for text in MORE.values()} | {"keep_states"}
    of_running_jobs = {"shared", "cancelled_at", "rerun"}
    of_updated_rows = {"attempts_made"}
    of_pending_jobs = {"due_at"}

    assert held | refused | of_running_jobs | of_updated_rows | of_pending_jobs == {
        *await sql.values(columns, sql.schema, "_jobs")
    }


@pytest.mark.parametrize("more", MORE)
async def test_a_job_with_other_properties_is_not_batchable(sql: Session, more: str) -> None:
    """The rest would be lost. The job is claimed in its row, beside the batch."""
    job, other = await add(sql), await add(sql)
    await sql.rows(f"update asyncq._jobs set {MORE[more]} where id = $1", job)

    assert {job, other} == {*await fetched(sql, form="batched")}
    assert [job] == await sql.values("select id from asyncq._jobs")
    assert [[other]] == await sql.values("select ids from asyncq._batches")

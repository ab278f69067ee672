"""`_document`: a job as JSON, for the client's `Job`."""

import msgspec
import pytest

from asyncq.domain.job import Job
from tests.support.jobs import add, fetch
from tests.support.session import Session

OF_ENDED = {"ended_at", "started_at", "worker_id", "result", "keep_until"}
OF_OTHER_TABLES = {"errors", "steps"}
OF_LIVING = {"interruptions", "progress", "timeout_s", "soft_s", "expires_at", "deadline_at"}
DOCUMENT = "select asyncq._document(job)::text from asyncq._jobs as job where job.id = $1"


async def test_it_has_the_fields_of_a_job_and_no_other(sql: Session) -> None:
    """A missing field breaks every reader, and an extra one is a column without a reader."""
    job = await add(sql)
    text = await sql.value(DOCUMENT, job)
    await sql.rows("update asyncq._tasks set keep_s = 60")
    await sql.rows("select asyncq.complete_jobs(array[$1::bigint])", job)
    ended = await sql.value("select asyncq._ended_document(job)::text from asyncq._ended_jobs as job")
    fields = {field.name for field in msgspec.structs.fields(Job)}

    assert fields - OF_OTHER_TABLES - OF_ENDED == msgspec.json.decode(text).keys()
    assert fields - OF_OTHER_TABLES - OF_LIVING == msgspec.json.decode(ended).keys()
    assert (None, True) == (
        msgspec.json.decode(text, type=Job).ended_at,
        msgspec.json.decode(ended, type=Job).ended_at is not None,
    )


async def test_every_field_has_the_value_of_the_row(sql: Session) -> None:
    """The job has no field at its default."""
    job = await sql.value("""
        select id from asyncq.add_job('task', '{"z": 1.10, "a": "\\u00e9"}', 'q', '2030-01-31 04:00:00.000001+02', 7,
          'k', 3, '{b,a}', options :=
          '{"meta": {"m": 1}, "timeout_s": 5, "soft_s": 1.5, "expires_at": "2030-02-01T00:00:00Z",
          "deadline_at": "2030-02-02T00:00:00Z"}')""")
    await sql.rows("""
        update asyncq._jobs set attempts = 2, revision = 4, interruptions = 5, last_error = E'line\\n"two"',
          locked_by = 9, locked_at = '2030-02-01 00:00:00+00', lock_token = 1""")
    document = msgspec.json.decode(await sql.value(DOCUMENT, job))
    now = await sql.value("select asyncq._utc(now())")

    assert document == {
        "id": job,
        "task": "task",
        "queue": "q",
        "payload": '{"z": 1.10, "a": "\\u00e9"}',
        "priority": 3,
        "run_at": "2030-01-31T02:00:00.000001Z",
        "attempts": 2,
        "max_attempts": 7,
        "last_error": 'line\n"two"',
        "created_at": now,
        "updated_at": now,
        "key": "k",
        "locked_at": "2030-02-01T00:00:00.000000Z",
        "locked_by": "9",
        "revision": 4,
        "flags": ["a", "b"],
        "meta": {"m": 1},
        "state": "active",
        "interruptions": 5,
        "progress": None,
        "timeout_s": 5,
        "soft_s": 1.5,
        "expires_at": "2030-02-01T00:00:00.000000Z",
        "deadline_at": "2030-02-02T00:00:00.000000Z",
    }


@pytest.mark.parametrize("setting", ["datestyle = 'German'", "timezone = 'America/St_Johns'"])
async def test_the_settings_of_the_session_do_not_matter(sql: Session, setting: str) -> None:
    """It may be the caller's."""
    job = await add(sql, run_at="'2030-01-31 04:00:00+02'")
    await sql.execute(f"set local {setting}")

    assert "2030-01-31T02:00:00.000000Z" == msgspec.json.decode(await sql.value(DOCUMENT, job))["run_at"]


async def test_attempts_are_those_that_have_failed(sql: Session) -> None:
    """The view counts the running attempt too; this does not."""
    job = await add(sql)
    await fetch(sql)

    assert 0 == msgspec.json.decode(await sql.value(DOCUMENT, job))["attempts"]

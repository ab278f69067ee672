"""`remove_ended_jobs` and `redact_ended_jobs`: people want parts of the history gone before its time."""

import pytest

from tests.support.jobs import add
from tests.support.marked import keep
from tests.support.session import Session

ROWS = "select id, run_at is not null, unique_key is not null from asyncq._ended_jobs order by id"


@pytest.fixture
async def ids(sql: Session) -> list[int]:
    """Ended jobs: with a history, with a history and a key, with a key alone; and one that waits."""
    ids = [await add(sql) for _ in range(4)]
    await sql.execute("update asyncq._tasks set keep_s = 3600")
    await keep(sql, ids[1])
    await keep(sql, ids[2])
    await sql.rows(
        """
        insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
        select id, 1, now(), now(), 1, 1, 'failed', 'e' from unnest($1::bigint[]) as id""",
        ids,
    )
    await sql.rows("select asyncq.complete_jobs($1)", ids[:2])
    await sql.execute("update asyncq._tasks set keep_s = null")
    await sql.rows("select asyncq.complete_jobs($1)", ids[2:3])
    return ids


async def test_a_removed_job_is_gone_but_for_its_key(sql: Session, ids: list[int]) -> None:
    """A unique policy that looks at ended jobs still needs it. Other jobs are left alone."""
    removed = await sql.values("select asyncq.remove_ended_jobs($1)", [*reversed(ids), 999, ids[0]])

    assert ids[:2] == removed
    assert [(ids[1], False, True), (ids[2], False, True)] == [tuple(row) for row in await sql.rows(ROWS)]
    assert ids[2:] == await sql.values("select job_id from asyncq._attempts order by job_id")
    assert ids[3:] == await sql.values("select id from asyncq._jobs")


async def test_a_redacted_job_loses_its_payload_result_and_meta(sql: Session, ids: list[int]) -> None:
    """That it ran is still known."""
    await sql.execute("update asyncq._ended_jobs set result = '1', meta = '{}' where run_at is not null")
    redacted = await sql.values("select asyncq.redact_ended_jobs($1)", [ids[0], ids[2], ids[3]])
    rows = await sql.rows("""
        select id, num_nonnulls(payload, result, meta), attempts from asyncq._ended_jobs
        where run_at is not null order by id""")

    assert ids[:1] == redacted
    assert [(ids[0], 0, 0), (ids[1], 3, 0)] == [tuple(row) for row in rows]
    assert 4 == await sql.value("select count(*) from asyncq._attempts")

"""`force_unlock_workers` and `_force_unlock_workers`: the claims of dead workers are released at once."""

import pytest

from tests.support.jobs import add, claimed, complete, fetch, fetched, locked_queues
from tests.support.session import Session

UNLOCK = "select * from asyncq.force_unlock_workers($1)"


async def test_the_jobs_of_these_workers_can_be_fetched_again(sql: Session) -> None:
    """Jobs of others are left alone. The rows have the order of their ids."""
    ids = [await add(sql, queue=queue) for queue in (None, "q", None)]
    for worker in (7, 8, 9):
        await fetch(sql, 1, worker=worker)
    rows = await sql.rows(UNLOCK, ["9", "7"])
    freed = [row["id"] for row in rows]

    assert (sorted(freed), 2, {None}) == (freed, len(freed), {row["locked_by"] for row in rows})
    assert sorted({*ids} - {*freed}) == await claimed(sql)
    assert freed == sorted(await fetched(sql))


async def test_their_queues_are_free(sql: Session) -> None:
    """Otherwise the next job of the queue would wait for ever."""
    first = await add(sql, queue="q")
    await add(sql, queue="q")
    await fetch(sql, worker=7)
    await sql.rows(UNLOCK, ["7"])

    assert ([], [first]) == (await locked_queues(sql), await fetched(sql))


async def test_run_at_and_last_error_stay_and_the_attempt_that_began_counts(sql: Session) -> None:
    """The view shows the same attempts as before, as in graphile-worker.

    So a job that kills its workers is discarded one day.
    """
    await add(sql)
    await sql.rows("update asyncq._jobs set attempts = 2, last_error = 'e'")
    await fetch(sql, worker=7)
    before = await sql.row("select run_at, attempts, last_error from asyncq.jobs")
    (row,) = await sql.rows(UNLOCK, ["7"])

    assert tuple(before) == (row["run_at"], row["attempts"], row["last_error"])
    assert (3, "e") == (row["attempts"], row["last_error"])


async def test_a_settlement_of_the_dropped_claim_is_refused(sql: Session) -> None:
    """Its worker may still live. The job then has a second run, and the first one does not count."""
    await add(sql)
    claims = await fetch(sql, worker=7)
    await sql.rows(UNLOCK, ["7"])

    assert [] == await complete(sql, claims, 7)


@pytest.mark.parametrize("ids", [None, [], [None], ["70"], [" 7"], ["x"], ["7 "], ["07"]])
async def test_ids_are_compared_exactly(sql: Session, ids: list[str] | None) -> None:
    """Unknown ids and null are ignored."""
    job = await add(sql)
    await fetch(sql, worker=7)

    assert ([], [job]) == (await sql.rows(UNLOCK, ids), await claimed(sql))


UNLOCK_BY_ROWS = "select document::json ->> 'id' as id from asyncq._force_unlock_workers('{7}')"


async def test_a_job_that_was_cancelled_ends_as_cancelled(sql: Session) -> None:
    """For all other callers it had ended before."""
    job = await add(sql)
    await fetch(sql, worker=7)
    await sql.rows("""
        update asyncq._jobs
        set cancelled_at = now(), keep_until = now() + interval '1 h', keep_states = '{cancelled}'""")
    touched = await sql.values(UNLOCK_BY_ROWS)

    assert [str(job)] == touched
    assert (0, "cancelled") == (
        await sql.value("select count(*) from asyncq._jobs"),
        await sql.value("select state from asyncq._ended_jobs"),
    )


async def test_a_job_that_was_rerun_runs_again(sql: Session) -> None:
    """It has the payload of the rerun, whatever the unlocked run would have returned."""
    job = await add(sql)
    await fetch(sql, worker=7)
    await sql.rows("""update asyncq._jobs set attempts = 24, rerun = '{"new": 1}'""")
    await sql.values(UNLOCK_BY_ROWS)
    row = await sql.row("select payload::text, rerun, attempts from asyncq._jobs")

    assert ('{"new": 1}', None, 0) == tuple(row)
    assert [job] == await fetched(sql)


async def test_the_last_attempt_was_the_last(sql: Session) -> None:
    """No attempt is given back."""
    await add(sql, max_attempts=1)
    await fetch(sql, worker=7)
    await sql.values(UNLOCK_BY_ROWS)

    assert ("discarded", []) == (
        await sql.value("select asyncq._state(job) from asyncq._jobs as job"),
        await fetched(sql),
    )


async def test_the_workers_lose_their_rows_and_are_notified(own: Session) -> None:
    """A worker that still lives cancels its handlers, so that no job runs twice at once."""
    heard: list[object] = []
    (row,) = await own.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await own.connection.add_listener(f"{own.schema}:cancel", lambda *said: heard.append(said[3]))
    await own.rows("select from asyncq._force_unlock_workers($1)", [str(row["id"])])
    await own.rows("select")

    assert ([f"{row['id']} 0 0"], 0) == (heard, await own.value("select count(*) from asyncq._workers"))


@pytest.mark.parametrize(("given", "during"), [("0", "10s"), ("20s", "10s"), ("2s", "2s")])
async def test_no_claim_is_waited_for_for_ever(sql: Session, given: str, during: str) -> None:
    """Ten seconds, if the caller has no less patience; which is the same afterwards."""
    await sql.execute(f"""
        set local lock_timeout = '{given}';
        create table pg_temp.seen (patience text);
        create or replace function asyncq._end_transactions(workers int[] default null)
          returns table (worker_id int, job_id bigint) language sql
          as $$
            insert into pg_temp.seen values (pg_catalog.current_setting('lock_timeout'));
            select 1, 1::bigint where false
          $$""")
    await sql.values(UNLOCK_BY_ROWS)
    seen = await sql.value("select patience from pg_temp.seen")

    assert (during, given) == (seen, await sql.value("show lock_timeout"))


async def test_the_lost_attempts_are_recorded(sql: Session) -> None:
    """They count. A cancelled job has ended, and has lost none."""
    job, cancelled = await add(sql), await add(sql)
    await sql.rows("update asyncq._jobs set last_error = 'earlier'")
    await fetch(sql, worker=7)
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", cancelled)
    await sql.rows(UNLOCK, ["7"])
    recorded = await sql.rows("select job_id, number, kind, worker_id, error from asyncq.attempts")

    assert [(job, 1, "lost", 7, "WorkerLost: worker 7 was unlocked by force")] == [tuple(row) for row in recorded]

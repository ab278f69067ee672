"""`remove_job` and `_remove_job`: a waiting job is deleted; one that runs loses its key."""

import pytest

from tests.support.jobs import change, complete, fetch, locked_queues
from tests.support.keyed import KEY, add_one, hold, stored
from tests.support.session import Session, session

REMOVE = "select * from asyncq.remove_job($1)"


@pytest.mark.parametrize("state", ["scheduled", "available", "retryable", "discarded"])
async def test_a_job_that_waits_or_is_discarded_is_deleted(sql: Session, state: str) -> None:
    """The result is its row as it was."""
    await hold(sql, state)
    before = dict(await sql.row("select * from asyncq.jobs"))
    removed = dict(await sql.row(REMOVE, KEY))

    assert before == removed
    assert {} == await stored(sql)


async def test_a_job_that_runs_loses_its_key_and_its_further_attempts(sql: Session) -> None:
    """It cannot be stopped, but it is not tried again. The caller sees that it is locked."""
    old = await hold(sql, "active")
    removed = await sql.row(REMOVE, KEY)
    (row,) = (await stored(sql)).values()

    assert {**old, "key": None, "attempts": 7, "updated_at": await sql.value("select now()")} == row
    assert (old["id"], None, 7, 7, "9") == tuple(
        removed[name] for name in ("id", "key", "attempts", "max_attempts", "locked_by")
    )


async def test_a_removed_job_that_fails_stays_dead(sql: Session) -> None:
    """Its error stays, so that users can find it."""
    await add_one(sql, queue="q")
    claims = await fetch(sql)
    await sql.rows(REMOVE, KEY)
    await change(sql, claims, attempts=1, delay_s=0.0, error="late")
    (row,) = (await stored(sql)).values()

    assert (25, "late", None) == (row["attempts"], row["last_error"], row["locked_by"])
    assert ([], []) == (await fetch(sql), await locked_queues(sql))


async def test_a_removed_job_that_was_to_be_rerun_does_not_run_again(sql: Session) -> None:
    """The removal cancels the rerun too."""
    await add_one(sql)
    claims = await fetch(sql)
    await sql.execute("update asyncq._jobs set rerun = '{}'")
    await sql.rows(REMOVE, KEY)

    assert [claims[0]["id"]] == await complete(sql, claims)
    assert {} == await stored(sql)


@pytest.mark.parametrize("ends", ["completed", "returned"])
async def test_a_removed_job_never_starts_again(sql: Session, ends: str) -> None:
    """Its run may end well, or its worker may return it unstarted."""
    await add_one(sql, queue="q")
    claims = await fetch(sql)
    await sql.rows(REMOVE, KEY)
    await (complete(sql, claims) if ends == "completed" else change(sql, claims))

    assert ([], []) == (await fetch(sql), await locked_queues(sql))


async def test_a_key_that_no_job_has_gives_a_row_of_nulls(sql: Session) -> None:
    """graphile-worker returns the same: one row of nulls."""
    row = await sql.row(REMOVE, "nobody")

    assert {None} == set(row.values())
    assert await sql.value("select asyncq.remove_job('nobody') is null")


async def test_a_null_key_gives_null(sql: Session) -> None:
    """No job has it, however many have none."""
    await add_one(sql, key=None)

    assert await sql.value("select asyncq.remove_job(null) is null")
    assert 1 == len(await stored(sql))


async def test_only_the_job_of_the_key_is_removed(sql: Session) -> None:
    """Keys are compared exactly."""
    for key in ("k", "K", "k ", None):
        await add_one(sql, key=key)
    await sql.rows(REMOVE, "k")

    assert ["K", "k ", None] == [row["key"] for row in (await stored(sql)).values()]


async def test_a_removed_key_is_free(sql: Session) -> None:
    """This holds in the same transaction, even if the job still runs."""
    for state in ("scheduled", "active"):
        old = await hold(sql, state)
        await sql.rows(REMOVE, KEY)
        done = await add_one(sql)

        assert ("added", None) == (done.outcome, done.existing_id)
        assert old["id"] < done.id
        await sql.rows(REMOVE, KEY)


async def test_a_handler_that_holds_its_row_is_not_waited_for(dsn: str, own: Session) -> None:
    """A transactional one does so for as long as it runs, and may wait for the key lock itself: a deadlock."""
    job = await hold(own, "active")
    async with session(dsn, own.schema, lock_timeout="100ms") as other, own.connection.transaction():
        await own.rows("select from asyncq._jobs where id = $1 for key share", job["id"])
        removed = await other.row(REMOVE, KEY)
    await own.execute("delete from asyncq._jobs")

    assert (job["id"], None) == (removed["id"], removed["key"])


async def test_the_queue_of_a_running_job_stays_busy(sql: Session) -> None:
    """Only a settlement frees the queue of a running job."""
    await add_one(sql, queue="q")
    await fetch(sql)
    await sql.rows(REMOVE, KEY)

    assert ["q"] == await locked_queues(sql)


KEEP = """
update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{completed,cancelled,discarded}'
"""


@pytest.mark.parametrize(
    ("state", "ended"),
    [("scheduled", "cancelled"), ("retryable", "cancelled"), ("discarded", "discarded"), ("active", None)],
)
async def test_a_removed_job_that_is_to_be_kept_is_kept(sql: Session, state: str, ended: str | None) -> None:
    """A waiting job is kept as cancelled, a discarded one as discarded. A running one has not ended yet."""
    job = await hold(sql, state)
    await sql.execute(KEEP)
    (document,) = await sql.values("select document::json ->> 'id' from asyncq._remove_job($1)", KEY)

    assert str(job["id"]) == document
    assert ([ended] if ended else []) == await sql.values("select state from asyncq._ended_jobs")


async def test_the_failed_attempts_of_a_removed_job_are_removed(sql: Session) -> None:
    """Their errors may hold what the caller wants to be gone. Those of other jobs stay."""
    job = (await hold(sql, "retryable"))["id"]
    await sql.rows(
        """
        insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
        select id, token, now(), now(), 1, 1, 'failed', 'e'
        from unnest(array[$1, $1 + 1]) as id, generate_series(1, 2) as token""",
        job,
    )
    await sql.rows(REMOVE, KEY)

    assert [job + 1] * 2 == await sql.values("select job_id from asyncq.attempts")

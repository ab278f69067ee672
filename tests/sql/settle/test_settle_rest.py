"""`settle_rest`: all ends that `settle_completed` does not write; test_settle.py has the values that it writes."""

import asyncpg
import pytest

from tests.support.jobs import (
    WORKER,
    add,
    add_many,
    claimed,
    complete,
    fetch,
    fetched,
    locked_queues,
    rest,
    settle_rest,
)
from tests.support.marked import ASK_AGAIN, CANCEL, ended, keep, only
from tests.support.session import Session, session

MARKS = pytest.mark.parametrize(
    ("mark", "ending"), [(CANCEL, "cancelled"), (ASK_AGAIN, "rerun")], ids=["cancelled", "asked again"]
)


async def running(sql: Session, mark: str) -> list[asyncpg.Record]:
    """A running job of a queue, marked. Returns its claim."""
    job = await add(sql, queue="q")
    claims = await fetch(sql)
    await sql.rows(mark, job)
    return claims


@MARKS
async def test_the_plain_statement_leaves_marked_jobs_alone(sql: Session, mark: str, ending: str) -> None:
    """It deletes them, and would forget the mark."""
    claims = await running(sql, mark)
    before = await only(sql)

    assert [] == await complete(sql, claims)
    assert (before, ["q"]) == (await only(sql), await locked_queues(sql))


async def test_a_completed_job_that_is_to_be_kept_is_left_alone_a_changed_one_is_not(sql: Session) -> None:
    """Only its end has to be remembered. A live job is an ordinary one."""
    job = await add(sql)
    await keep(sql, job)
    claims = await fetch(sql)

    assert [] == await complete(sql, claims)
    assert {job: "written"} == await settle_rest(sql, claims, attempts=1, delay_s=0.0, error="e")
    assert ([], None) == (await claimed(sql), (await only(sql))["rerun"])


@MARKS
@pytest.mark.parametrize("done", [True, False])
async def test_a_marked_job_ends_by_its_mark_whatever_the_outcome_of_its_run(
    sql: Session, mark: str, ending: str, done: bool
) -> None:
    """The run may be completed, failed, interrupted or never started. Its queue is freed."""
    claims = await running(sql, mark)
    job = claims[0]["id"]

    assert {job: ending} == await settle_rest(sql, claims, done=done, attempts=1, delay_s=60.0, error="e")
    assert ([], []) == (await claimed(sql), await locked_queues(sql))
    assert ([job] if ending == "rerun" else []) == await fetched(sql)


@pytest.mark.parametrize(("states", "kept"), [(["completed"], True), (["cancelled"], False)])
async def test_a_completed_job_is_kept_if_that_was_asked_for(sql: Session, states: list[str], kept: bool) -> None:
    """A unique policy with a window counts it."""
    job = await add(sql, queue="q")
    await keep(sql, job, states)

    assert {job: "written"} == await settle_rest(sql, await fetch(sql), done=True)
    assert ([(job, "completed")] if kept else []) == await ended(sql)
    assert (0, []) == (await sql.value("select count(*) from asyncq._jobs"), await locked_queues(sql))


async def test_a_job_that_was_asked_for_again_has_not_ended_even_if_it_is_to_be_kept(sql: Session) -> None:
    """It starts again; its last run will end it."""
    job = await add(sql)
    await keep(sql, job)
    claims = await fetch(sql)
    await sql.rows(ASK_AGAIN, job)

    assert ({job: "rerun"}, []) == (await settle_rest(sql, claims, done=True), await ended(sql))


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_a_completed_job_without_a_mark_is_deleted(sql: Session, form: str) -> None:
    """The plain statement could not write its end, because another transaction locked it."""
    await add_many(sql, 2)
    first, second = await fetch(sql, form=form)

    assert {first["id"]: "written"} == await settle_rest(sql, [first], done=True)
    assert [second["id"]] == await sql.values("select id from asyncq._jobs")
    assert [second["id"]] == await claimed(sql)


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch"])
async def test_nobody_settles_the_claim_of_another(sql: Session, stranger: str) -> None:
    """Worker and token are compared as for plain jobs."""
    (claim,) = await running(sql, CANCEL)
    if stranger == "another worker":
        endings = await settle_rest(sql, [claim], done=True, worker=WORKER + 1)
    else:
        endings = await settle_rest(sql, [{**claim, "lock_token": 99}], done=True)

    assert {claim["id"]: "lost"} == endings
    assert ([claim["id"]], ["q"]) == (await claimed(sql), await locked_queues(sql))


async def test_a_locked_row_is_skipped(dsn: str, own: Session) -> None:
    """It is tried again later, and nobody waits."""
    held, free = [await add(own), await add(own)]
    claims = await fetch(own)
    for job in (held, free):
        await own.rows(CANCEL, job)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", held)
        during = await settle_rest(own, claims)

    assert {held: "held", free: "cancelled"} == during
    assert {held: "cancelled", free: "lost"} == await settle_rest(own, claims)


async def test_a_batch_of_all_kinds_is_settled_each_in_its_own_way(sql: Session) -> None:
    """One array has the end of each job; null if it goes on."""
    jobs = [await add(sql, queue=f"q{number}") for number in range(6)]
    for job in jobs[2:4]:
        await keep(sql, job)
    claims = await fetch(sql)
    await sql.rows(CANCEL, jobs[0])
    await sql.rows(ASK_AGAIN, jobs[1])
    tokens = [claim["lock_token"] for claim in sorted(claims, key=lambda claim: claim["id"])]
    ends = [None, "completed", "completed", None, "completed", None]
    values = [[1] * 6, [60.0] * 6, ["e"] * 6, [0] * 6, ["failed"] * 6, [1.5] * 6, [None] * 6, [None] * 6]
    rows = await sql.run("settle_rest", WORKER, *rest(jobs, tokens, ends, *values))
    endings = {row["id"]: row["ending"] for row in rows}
    left = await sql.rows("select id, attempts, last_error from asyncq._jobs order by id")

    assert dict(zip(jobs, ["cancelled", "rerun", *["written"] * 4], strict=True)) == endings
    assert [(jobs[2], "completed")] == await ended(sql)
    assert [(jobs[1], 0, None), (jobs[3], 1, "e"), (jobs[5], 1, "e")] == [tuple(row) for row in left]
    assert ([], []) == (await claimed(sql), await locked_queues(sql))


async def test_a_repeated_settlement_changes_nothing(sql: Session) -> None:
    """Its answer was lost, so it is sent again. The job may already run a second time."""
    claims = await running(sql, ASK_AGAIN)
    await settle_rest(sql, claims)
    (again,) = await fetch(sql, token=2)

    assert {again["id"]: "lost"} == await settle_rest(sql, claims)
    assert (2, [again["id"]]) == (again["lock_token"], await claimed(sql))


async def test_the_endings_distinguish_locked_claims_from_lost_ones(dsn: str, own: Session) -> None:
    """The worker tries a locked claim again, and drops a lost one."""
    held, ended_before, other_worker, later_fetch = jobs = [await add(own) for _ in range(4)]
    claims = await fetch(own)
    await complete(own, [claim for claim in claims if claim["id"] == ended_before])
    await own.execute(f"""
        update asyncq._jobs set locked_by = 8 where id = {other_worker};
        update asyncq._jobs set lock_token = 8 where id = {later_fetch}""")
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs for update")
        endings = await settle_rest(own, claims, attempts=1)
    await own.execute("delete from asyncq._jobs")

    assert {job: "held" if job == held else "lost" for job in jobs} == endings


async def test_the_batches_of_its_claims_are_split_and_no_others(sql: Session) -> None:
    """A job that goes on living needs a row. Its siblings continue as rows too."""
    await add_many(sql, 3)
    first = await fetch(sql, token=1, form="batched")
    await add_many(sql, 2)
    second = await fetch(sql, token=2, form="batched")
    failed = first[1]["id"]

    assert {failed: "written"} == await settle_rest(sql, [first[1]], attempts=1, delay_s=60.0, error="e")
    assert [claim["id"] for claim in first] == await sql.values("select id from asyncq._jobs order by id")
    assert [claim["id"] for claim in [first[0], first[2], *second]] == await claimed(sql)
    assert [2] == await sql.values("select lock_token from asyncq._batches")

"""`settle_special`, and what the plain statements leave to it: jobs cancelled, asked for again, or to be kept."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.sql.jobs import WORKER, add, change, claimed, complete, fetch, fetched, locked_queues
from tests.sql.marked import ASK_AGAIN, CANCEL, ended, keep, only, settle_special
from tests.sql.session import Session, session

Settle = Callable[..., Awaitable[list[int]]]

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
@pytest.mark.parametrize("settle", [complete, change])
async def test_the_plain_statements_leave_marked_jobs_alone(
    sql: Session, mark: str, ending: str, settle: Settle
) -> None:
    """They delete it, or let it be tried again, and would forget the mark."""
    claims = await running(sql, mark)
    before = await only(sql)

    assert [] == await settle(sql, claims)
    assert (before, ["q"]) == (await only(sql), await locked_queues(sql))


async def test_a_completed_job_that_is_to_be_kept_is_left_alone_a_changed_one_is_not(sql: Session) -> None:
    """Only its end has to be remembered: as long as it lives it is a job like others."""
    job = await add(sql)
    await keep(sql, job)
    claims = await fetch(sql)

    assert [] == await complete(sql, claims)
    assert [job] == await change(sql, claims, attempts=1, delay_s=0.0, error="e")
    assert ([], None) == (await claimed(sql), (await only(sql))["rerun"])


@MARKS
@pytest.mark.parametrize("done", [True, False])
async def test_a_marked_job_ends_as_its_mark_says_whatever_its_run_came_to(
    sql: Session, mark: str, ending: str, done: bool
) -> None:
    """Completed or failed, interrupted or never started; and its queue is free."""
    claims = await running(sql, mark)
    job = claims[0]["id"]

    assert {job: ending} == await settle_special(sql, claims, done=done)
    assert ([], []) == (await claimed(sql), await locked_queues(sql))
    assert ([job] if ending == "rerun" else []) == await fetched(sql)


@pytest.mark.parametrize(("states", "kept"), [(["completed"], True), (["cancelled"], False)])
async def test_a_completed_job_is_kept_if_that_was_asked_for(sql: Session, states: list[str], kept: bool) -> None:
    """A unique policy with a window counts it."""
    job = await add(sql, queue="q")
    await keep(sql, job, states)

    assert {job: "completed"} == await settle_special(sql, await fetch(sql))
    assert ([(job, "completed")] if kept else []) == await ended(sql)
    assert (0, []) == (await sql.value("select count(*) from asyncq._jobs"), await locked_queues(sql))


async def test_a_job_that_was_asked_for_again_has_not_ended_even_if_it_is_to_be_kept(sql: Session) -> None:
    """It begins anew; its last run will end it."""
    job = await add(sql)
    await keep(sql, job)
    claims = await fetch(sql)
    await sql.rows(ASK_AGAIN, job)

    assert ({job: "rerun"}, []) == (await settle_special(sql, claims), await ended(sql))


@pytest.mark.parametrize("done", [True, False])
async def test_jobs_without_a_mark_are_none_of_its_business(sql: Session, done: bool) -> None:
    """What the plain statements could not write, because somebody held it, has to be written by them."""
    job = await add(sql, queue="q")
    if not done:
        await keep(sql, job)
    claims = await fetch(sql)

    assert {} == await settle_special(sql, claims, done=done)
    assert ([job], ["q"]) == (await claimed(sql), await locked_queues(sql))


@pytest.mark.parametrize("stranger", ["another worker", "an older fetch"])
async def test_nobody_settles_the_claim_of_another(sql: Session, stranger: str) -> None:
    """The fence is that of the plain statements."""
    (claim,) = await running(sql, CANCEL)
    if stranger == "another worker":
        written = await settle_special(sql, [claim], worker=WORKER + 1)
    else:
        written = await settle_special(sql, [{**claim, "lock_token": 99}])

    assert ({}, [claim["id"]], ["q"]) == (written, await claimed(sql), await locked_queues(sql))


async def test_a_row_that_somebody_holds_is_skipped(dsn: str, own: Session) -> None:
    """It is tried again later; nobody waits."""
    held, free = [await add(own), await add(own)]
    claims = await fetch(own)
    for job in (held, free):
        await own.rows(CANCEL, job)
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = $1 for update", held)
        first = await settle_special(own, claims)

    assert ({free: "cancelled"}, {held: "cancelled"}) == (first, await settle_special(own, claims))


async def test_a_batch_of_all_kinds_is_settled_each_in_its_own_way(sql: Session) -> None:
    """Whether a run ended well stands beside its id."""
    jobs = [await add(sql, queue=f"q{number}") for number in range(6)]
    for job in jobs[2:4]:
        await keep(sql, job)
    claims = await fetch(sql)
    await sql.rows(CANCEL, jobs[0])
    await sql.rows(ASK_AGAIN, jobs[1])
    tokens = [claim["lock_token"] for claim in sorted(claims, key=lambda claim: claim["id"])]
    done = [False, True, True, False, True, False]
    written = {row["id"]: row["ending"] for row in await sql.run("settle_special", WORKER, jobs, tokens, done)}

    assert {jobs[0]: "cancelled", jobs[1]: "rerun", jobs[2]: "completed"} == written
    assert jobs[3:] == await claimed(sql)
    assert ["q3", "q4", "q5"] == await locked_queues(sql)


async def test_what_is_settled_twice_changes_nothing(sql: Session) -> None:
    """Its answer was lost, and it is sent again; the job may run already, for the second time."""
    claims = await running(sql, ASK_AGAIN)
    await settle_special(sql, claims)
    (again,) = await fetch(sql, token=2)

    assert {} == await settle_special(sql, claims)
    assert (2, [again["id"]]) == (again["lock_token"], await claimed(sql))

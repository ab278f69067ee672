"""`write_progress`: a row for each claim, which others read as long as the claim exists."""

import json

import pytest

from tests.support.jobs import add, add_many, complete, fetch
from tests.support.progress import done, rows, write
from tests.support.session import Session

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])


@FORMS
async def test_one_statement_writes_the_progress_of_two_jobs(sql: Session, form: str) -> None:
    """The second report replaces the first one; a job in a batch has progress too."""
    await add_many(sql, 2)
    first, second = await fetch(sql, form=form)
    await write(sql, (first, 1), (second, 2))
    before = await done(sql)
    await write(sql, (first, 3), (second, 2.5))

    assert {first["id"]: 1, second["id"]: 2} == before
    assert {first["id"]: 3, second["id"]: 2.5} == await done(sql)


async def test_a_report_is_stored_as_it_was_made(sql: Session) -> None:
    """The time is that of the write, by the server's clock."""
    await add(sql)
    [claim] = await fetch(sql)
    report = {"job_id": claim["id"], "locked_by": 1, "lock_token": claim["lock_token"]}
    await sql.run("write_progress", json.dumps([{**report, "done": 1.5, "total": 3, "note": 'ü "1"'}]))
    row = await sql.row("select *, reported_at between now() and clock_timestamp() as is_now from asyncq.progress")

    assert (claim["id"], 1.5, 3.0, 'ü "1"', True) == (
        row["job_id"],
        row["done"],
        row["total"],
        row["note"],
        row["is_now"],
    )


@FORMS
async def test_the_progress_of_an_ended_job_is_not_seen(sql: Session, form: str) -> None:
    """Its row is still there until the worker deletes it, in the statement that writes other reports."""
    await add_many(sql, 2)
    first, second = await fetch(sql, form=form)
    await write(sql, (first, 1), (second, 1))
    await complete(sql, [first])
    seen, stored = await done(sql), await rows(sql)
    await write(sql, (first, None), (second, 2))

    assert ({second["id"]: 1}, 2) == (seen, stored)
    assert ({second["id"]: 2}, 1) == (await done(sql), await rows(sql))


@FORMS
async def test_a_worker_that_lost_its_claim_writes_over_nothing(sql: Session, form: str) -> None:
    """A rescue returned the job, and another worker runs it; then the first worker comes back."""
    job = await add(sql)
    [old] = await fetch(sql, form=form)
    await write(sql, (old, 1))
    await sql.rows("select from asyncq._rescue_jobs(true)")
    waiting = await done(sql)
    [new] = await fetch(sql, worker=2, form=form)
    begun = await done(sql)
    await write(sql, (new, 5), worker=2)
    await write(sql, (old, 9))

    assert ({}, {}, {job: 5}) == (waiting, begun, await done(sql))

    await write(sql, (old, None))

    assert {job: 5} == await done(sql)

"""`_progress_of`: the progress in the document of a job, as the client reads it."""

import json

import msgspec
import pytest

from asyncq.domain.job import Job
from tests.support.jobs import add, change, complete, fetch
from tests.support.progress import write
from tests.support.session import Session


async def read(sql: Session, job: int) -> Job:
    """The job, as `Client.get_job` reads it."""
    [row] = await sql.run("get_job", job)
    return msgspec.json.decode(row["document"], type=Job)


@pytest.mark.parametrize("form", ["rows", "batched"])
async def test_a_running_job_has_the_last_report_of_its_claim(sql: Session, form: str) -> None:
    """None before the first report."""
    job = await add(sql)
    [claim] = await fetch(sql, form=form)
    before = await read(sql, job)
    report = {"job_id": job, "locked_by": 1, "lock_token": claim["lock_token"], "done": 1, "total": 3, "note": "n"}
    await sql.run("write_progress", json.dumps([report]))
    progress = (await read(sql, job)).progress
    at = await sql.value("select reported_at from asyncq._progress")

    assert before.progress is None
    assert progress is not None
    assert (1.0, 3.0, "n", at) == (progress.done, progress.total, progress.note, progress.at)


async def test_a_job_that_waits_for_its_retry_has_none(sql: Session) -> None:
    """Nor has the next run before it reports."""
    job = await add(sql)
    [claim] = await fetch(sql)
    await write(sql, (claim, 1))
    await change(sql, [claim], attempts=1, delay_s=0.0, error="e")
    waiting = await read(sql, job)
    [again] = await fetch(sql, token=2)
    running = await read(sql, job)
    await complete(sql, [again])

    assert ("available", None, "active", None) == (waiting.state, waiting.progress, running.state, running.progress)

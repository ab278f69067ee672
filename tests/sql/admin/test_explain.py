"""`explain`: each reason why a job does not run; without it the job is fetched."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.support.jobs import add, change, complete, fetch, fetched
from tests.support.keyed import hold
from tests.support.session import Session

EXPLAIN = "select reason, detail from asyncq.explain($1)"
REGISTER = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks, forbidden_flags)
values ('30 s', 1, 10, 'h', $1, $2) returning id
"""
# Settings of a session that PostgreSQL follows when it writes a time as text.
ODD = "set timezone = 'Asia/Kathmandu'; set datestyle = 'German'; set intervalstyle = 'iso_8601'"


async def reasons(sql: Session, job: int) -> list[str]:
    """The reasons, without their details."""
    return [row["reason"] for row in await sql.rows(EXPLAIN, job)]


async def detail(sql: Session, job: int) -> str:
    """The detail of the only reason."""
    return (await sql.row(EXPLAIN, job))["detail"]


async def worker(sql: Session, *tasks: str, forbidden: Sequence[str] | None = None) -> int:
    """A live worker that knows these tasks. Returns its id."""
    return await sql.value(REGISTER, list(tasks), forbidden)


class Planted(NamedTuple):
    """A reason that keeps a job from running, and how it ends.

    Attributes:
        plant: Statements that make it so, of the job `{job}` and the worker `{worker}`.
        remove: Statements that undo it.
        says: A part of the detail.
    """

    plant: str
    remove: str
    says: str


TO = "update asyncq._jobs set {} where id = {{job}}"
REASONS = {
    "discarded": Planted(
        TO.format(r"attempts = 25, last_error = E'ValueError: no\nTraceback'"),
        "select asyncq.retry_jobs(array[{job}])",
        "discarded after 25 of 25 attempts: ValueError: no",
    ),
    "not_due": Planted(
        TO.format("run_at = now() + interval '1 h'"),
        "select asyncq.reschedule_jobs(array[{job}], now())",
        ", in 01:00:00",
    ),
    "expired": Planted(
        TO.format("expires_at = now()"),
        TO.format("expires_at = null").replace("{{", "{").replace("}}", "}"),
        "and will end as cancelled",
    ),
    "no_worker": Planted(
        "update asyncq._workers set last_seen = now() - interval '31 s'",
        "update asyncq._workers set last_seen = now()",
        "no worker is alive",
    ),
    "unknown_task": Planted(
        "update asyncq._workers set tasks = '{{other}}'",
        "update asyncq._workers set tasks = '{{other,t}}'",
        "no live worker knows the task t; alive: {worker}",
    ),
    "forbidden_flag": Planted(
        "update asyncq._workers set forbidden_flags = '{{x,f}}'",
        "update asyncq._workers set forbidden_flags = '{{x}}'",
        "every live worker that knows its task forbids one of its flags: f",
    ),
    "queue_behind": Planted(
        "select asyncq.add_job('t', queue_name := 'q', priority := -1, job_key := 'first')",
        "select asyncq.remove_job('first')",
        " of its queue comes first",
    ),
}


@pytest.mark.parametrize("reason", REASONS)
async def test_a_reason_is_named_and_without_it_the_job_is_fetched(sql: Session, reason: str) -> None:
    """An explanation and a fetch agree."""
    planted = REASONS[reason]
    job = await add(sql, queue="q", flags=["f"])
    names = {"job": job, "worker": await worker(sql, "t")}
    await sql.execute(planted.plant.format(**names))
    found = await sql.rows(EXPLAIN, job)
    await sql.execute(planted.remove.format(**names))
    after = await reasons(sql, job)

    assert [reason] == [row["reason"] for row in found]
    assert planted.says.format(**names) in found[0]["detail"]
    assert (["ready"], [job]) == (after, await fetched(sql))


async def test_a_job_waits_for_the_one_of_its_queue_that_runs(sql: Session) -> None:
    """It says which, where, and since when."""
    first, second = await add(sql, queue="q"), await add(sql, queue="q")
    me = await worker(sql, "t")
    claims = await fetch(sql, worker=me)
    waiting = (await sql.row(EXPLAIN, second), await fetched(sql))
    await complete(sql, claims, me)

    assert ("queue_busy", []) == (waiting[0]["reason"], waiting[1])
    assert f"job {first} of its queue runs, on worker {me} since " in waiting[0]["detail"]
    assert (["ready"], [second]) == (await reasons(sql, second), await fetched(sql))


async def test_a_job_that_waits_for_its_retry_is_explained(sql: Session) -> None:
    """The caller did not request this wait."""
    job = await add(sql)
    await worker(sql, "t")
    await change(sql, await fetch(sql), attempts=1, delay_s=60.0, error="e")

    assert (await detail(sql, job)).startswith("waits for its retry, due at ")


async def test_all_reasons_are_named(sql: Session) -> None:
    """A user who removes one reason has to know the others."""
    busy = await add(sql, queue="q")
    await fetch(sql, worker=99)
    job = await add(sql, queue="q", run_at="now() + interval '1 h'")

    assert ["not_due", "no_worker", "queue_busy"] == await reasons(sql, job)
    assert busy < job


async def test_a_job_that_waits_for_nothing_is_ready(sql: Session) -> None:
    """The text also names the workers that may take it."""
    job = await add(sql, flags=["f"])
    ids = [await worker(sql, "t"), await worker(sql, "t", forbidden=["g"])]
    await worker(sql, "t", forbidden=["f"])
    await worker(sql, "other")

    assert f"the next fetch takes it, by worker {ids[0]} or {ids[1]}, when a slot is free" == await detail(sql, job)


async def test_a_job_is_behind_those_only_that_its_worker_can_take(sql: Session) -> None:
    """An earlier job that is scheduled, forbidden, or unknown to the worker does not count."""
    await add(sql, queue="q", priority=-1, run_at="now() + interval '1 h'")
    await add(sql, "unknown", queue="q")
    await add(sql, queue="q", flags=["f"])
    job = await add(sql, queue="q")
    me = await worker(sql, "t", forbidden=["f"])

    assert ["ready"] == await reasons(sql, job)
    assert [job] == await fetched(sql, worker=me, tasks=["t"], forbidden=["f"])


async def test_a_job_that_one_of_two_workers_can_take_first_is_ready(sql: Session) -> None:
    """The other one has to take the job before it first."""
    await add(sql, "a", queue="q")
    job = await add(sql, "b", queue="q")
    await worker(sql, "a", "b")
    before = await reasons(sql, job)
    await worker(sql, "b")

    assert (["queue_behind"], ["ready"]) == (before, await reasons(sql, job))


async def test_a_missing_job_has_no_reason(sql: Session) -> None:
    """It never existed, or has ended."""
    assert [] == await reasons(sql, 2**62)


@pytest.mark.parametrize("has_history", [False, True])
async def test_a_job_that_has_ended_and_is_kept_is_explained(sql: Session, has_history: bool) -> None:
    """This holds for as long as it is kept."""
    job = (await hold(sql, "available"))["id"]
    await sql.rows("update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{completed}'")
    await sql.rows("update asyncq._tasks set keep_s = $1", 3600.0 if has_history else None)
    await sql.rows("select asyncq.complete_jobs($1)", [job])
    said = await detail(sql, job)

    assert ["ended"] == await reasons(sql, job)
    assert said.startswith("ended as completed at ")
    assert said.endswith(" with its history" if has_history else " for later adds alone")


async def test_no_setting_of_the_session_changes_the_texts(sql: Session) -> None:
    """Scripts compare them, and two people speak of the same job."""
    me = await worker(sql, "t")
    jobs = [await add(sql, queue="q"), await add(sql, queue="q"), await add(sql, run_at="now() + interval '25 h'")]
    await fetch(sql, 1, worker=me)
    jobs.append((await hold(sql, "available", key="other"))["id"])
    await sql.rows(
        "update asyncq._jobs set keep_until = now() + interval '1 h', keep_states = '{completed}' where id = $1",
        jobs[3],
    )
    await sql.rows("select asyncq.complete_jobs($1)", [jobs[3]])
    await sql.execute("update asyncq._jobs set cancelled_at = now() where locked_by is not null")
    said: list[list[str]] = []
    for settings in ("set timezone = 'UTC'", ODD):
        await sql.execute(settings)
        said.append([str(tuple(row)) for job in jobs for row in await sql.rows(EXPLAIN, job)])

    texts = [[re.sub(r", in .*", "", text) for text in texts] for texts in said]
    assert texts[0] == texts[1]
    timed = [text for text in texts[1] if re.search(" (at|since) ", text)]
    written = [text for text in timed if re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\+00", text)]
    assert (5, timed) == (len(timed), written)
    assert any(re.search(", in (1 day|2[45]:)", text) for text in said[1])

"""The history of ended jobs: `_keep_job`, `_keep_completed` and `_keep_batch`."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.jobs import BATCH_FROM, WORKER, add, complete, fetch, locked_queues, settle_rest, texts
from tests.support.marked import CANCEL, keep
from tests.support.session import Session

HOUR = timedelta(hours=1)
PAST = """
select state, keep_until - ended_at as kept, ended_at - started_at as took, worker_id, attempts, queue, error,
  payload::text, result::text, run_at is not null as has_history
from asyncq._ended_jobs order by id
"""


async def keep_task(sql: Session, seconds: float | None = 3600.0, *, payload: bool = True) -> None:
    """Keep the jobs of all tasks."""
    await sql.rows("update asyncq._tasks set keep_s = $1, keeps_payload = $2", seconds, payload)


async def past(sql: Session) -> dict[str, Any]:
    """The only ended job."""
    return dict(await sql.row(PAST))


async def complete_kept(sql: Session, claims: list[dict[str, Any]], *results: str, statement: str) -> list[int]:
    """Settle claims in the order of their ids, each with a result and after a run of 2 s; returns the written ones."""
    pairs = sorted((claim["id"], claim["lock_token"]) for claim in claims)
    kept = ("\x1e".join(results), "{" + ",".join(["2000000"] * len(pairs)) + "}")
    if statement == "settle_completed":
        (row,) = await sql.run(statement, WORKER, *texts(pairs), *kept)
        return [id_ for id_, _ in pairs] if row["written"] is None else row["written"]
    known = "{" + ",".join(map(str, await sql.values("select id from asyncq._tasks"))) + "}"
    rows = await sql.run(statement, WORKER, *texts(pairs), 10, 9, known, None, None, *kept)
    return [row["settled"] for row in rows]


@pytest.mark.parametrize("form", BATCH_FROM)
async def test_a_completed_job_of_a_kept_task_is_a_row_with_its_result(sql: Session, form: str) -> None:
    """Jobs with a history are claimed and settled like others, also in batches."""
    first, second = await add(sql), await add(sql, queue="q")
    await keep_task(sql)
    claims = await fetch(sql, form=form)
    written = await complete_kept(sql, claims, '{"a": 1}', "", statement="settle_completed")
    rows = [dict(row) for row in await sql.rows(PAST)]

    assert [first, second] == written
    assert ['{"a": 1}', None] == [row.pop("result") for row in rows]
    assert [None, "q"] == [row.pop("queue") for row in rows]
    assert (
        2
        * [
            {
                "state": "completed",
                "kept": HOUR,
                "took": timedelta(seconds=2),
                "worker_id": WORKER,
                "attempts": 1,
                "error": None,
                "payload": "{}",
                "has_history": True,
            }
        ]
        == rows
    )
    assert ([], 0) == (await locked_queues(sql), await sql.value("select count(*) from asyncq._all_jobs()"))


async def test_each_job_of_a_batch_is_kept_with_its_own_fields(sql: Session) -> None:
    """They are found by their places in the arrays of the batch, of which each settlement closes some."""
    ids = [
        await sql.value("select (asyncq.add_job('t', to_json($1::int), priority => $1)).id", number)
        for number in range(9)
    ]
    await keep_task(sql)
    claims = sorted(await fetch(sql, form="batched"), key=lambda claim: claim["id"])
    for part in (claims[1::2], claims[::2]):
        results = [str(claim["id"]) for claim in part]
        await complete_kept(sql, part, *results, statement="settle_completed")
    rows = await sql.rows("select id, priority, payload::text, result::text from asyncq._ended_jobs order by id")

    assert [(id_, number, str(number), str(id_)) for number, id_ in enumerate(ids)] == [tuple(row) for row in rows]


async def test_the_next_job_of_a_queue_is_claimed_beside_the_end_of_a_kept_one(sql: Session) -> None:
    """The queue goes on as fast as any other."""
    first, second = await add(sql, queue="q"), await add(sql, queue="q")
    await keep_task(sql)
    claims = await fetch(sql)
    ended = await complete_kept(sql, claims, "[7]", statement="claim_next")

    assert [first] == [claim["id"] for claim in claims]
    assert ({first, None}, ["q"]) == ({*ended}, await locked_queues(sql))
    kept = await past(sql)
    assert ("completed", "[7]", HOUR) == (kept["state"], kept["result"], kept["kept"])
    assert [second] == await sql.values("select id from asyncq._jobs where locked_by is not null")


@pytest.mark.parametrize("form", BATCH_FROM)
async def test_nothing_is_kept_of_other_tasks(sql: Session, form: str) -> None:
    """Also beside one that is kept."""
    await add(sql, "other")
    await keep_task(sql)
    await add(sql)
    claims = await fetch(sql, form=form)
    await sql.execute("update asyncq._tasks set keep_s = null where identifier = 't'")
    await complete_kept(sql, claims, "1", "2", statement="settle_completed")

    assert ["1"] == await sql.values("select result::text from asyncq._ended_jobs")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("asyncq.cancel_jobs", "cancelled"),
        ("asyncq.complete_jobs", "completed"),
        ("asyncq._expire_jobs", "cancelled"),
        ("asyncq._prune", "discarded"),
    ],
)
async def test_jobs_that_sql_ends_are_kept_too(sql: Session, end: str, state: str) -> None:
    """No worker took part: the store knows for how long a task is kept."""
    job = await add(sql)
    await keep_task(sql)
    await sql.execute("update asyncq._jobs set last_error = 'e', attempts = 3")
    if "_jobs" in end.removesuffix("expire_jobs"):
        await sql.rows(f"select {end}(array[$1::bigint])", job)
    elif end == "asyncq._expire_jobs":
        await sql.execute("update asyncq._jobs set expires_at = now(); select asyncq._expire_jobs(10)")
    else:
        await sql.execute("""
            update asyncq._jobs set max_attempts = 3, updated_at = now() - interval '10 min';
            select asyncq._prune(60, 60, 10)""")
    ended = await past(sql)

    assert (state, HOUR, None, None, 3) == tuple(
        ended[name] for name in ("state", "kept", "took", "worker_id", "attempts")
    )
    assert ("it was completed by hand, without a run" if state == "completed" else "e", "{}", True) == (
        ended["error"],
        ended["payload"],
        ended["has_history"],
    )


async def test_a_discarded_job_is_kept_for_the_rest_of_its_time(sql: Session) -> None:
    """Its row was its history until it was pruned, and its end was long before."""
    await add(sql)
    await keep_task(sql)
    await sql.execute("""
        update asyncq._jobs set attempts = max_attempts, updated_at = now() - interval '61 min';
        select asyncq._prune(60, 60, 10)""")

    assert [] == await sql.rows(PAST)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(("keep_s", "kept"), [(60, timedelta(minutes=1)), (7200, 2 * HOUR), (0, None)])
@pytest.mark.parametrize("of_task", [None, 3600.0])
async def test_the_time_of_a_job_replaces_that_of_its_task(
    sql: Session, keep_s: float, kept: timedelta | None, of_task: float | None
) -> None:
    """0 is never. Its end is left to settle_rest, which writes the result."""
    options = f'{{"keep_s": {keep_s}}}'
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", options)
    await keep_task(sql, of_task)
    claims = await fetch(sql)
    written = await complete(sql, claims)
    await settle_rest(sql, claims, done=True, result="5", duration_s=2.0)
    rows = await sql.rows(PAST)

    assert ([] if keep_s else [claims[0]["id"]]) == written
    assert [(kept, "5", timedelta(seconds=2))] * bool(kept) == [
        (row["kept"], row["result"], row["took"]) for row in rows
    ]


async def test_a_payload_that_is_not_to_be_kept_is_left_out(sql: Session) -> None:
    """Of rows and of members of batches."""
    for form in BATCH_FROM:
        await add(sql)
        await keep_task(sql, payload=False)
        await complete_kept(sql, await fetch(sql, form=form), "1", statement="settle_completed")

    assert [(None, "1")] * 2 == [(row["payload"], row["result"]) for row in await sql.rows(PAST)]


@pytest.mark.parametrize("states", [["completed"], ["cancelled"]])
@pytest.mark.parametrize("seconds", [None, 60.0, 7200.0])
async def test_a_job_is_kept_for_the_longest_of_its_reasons(
    sql: Session, states: list[str], seconds: float | None
) -> None:
    """Its key is kept only if a unique policy asked for this end, and its history only if its task says so."""
    await keep(sql, await add(sql), states)
    await keep_task(sql, seconds)
    await settle_rest(sql, await fetch(sql), done=True, result="1", duration_s=2.0)
    rows = await sql.rows(
        "select unique_key is not null as has_key, row.* from asyncq._ended_jobs as ended, lateral ("
        "select keep_until - ended_at as kept, result::text, run_at is not null as has_history) as row"
    )
    is_asked_for = states == ["completed"]
    times = [timedelta(seconds=seconds or 0), HOUR if is_asked_for else timedelta(0)]

    expected = [(is_asked_for, max(times), "1" if seconds else None, seconds is not None)] * bool(max(times))
    assert expected == [tuple(row) for row in rows]


@pytest.mark.parametrize("form", BATCH_FROM)
async def test_a_repeated_settlement_keeps_one_row(sql: Session, form: str) -> None:
    """The answer to the first one was lost."""
    job = await add(sql)
    await keep_task(sql)
    claims = await fetch(sql, form=form)
    await complete_kept(sql, claims, "1", statement="settle_completed")

    assert {job: "lost"} == await settle_rest(sql, claims, done=True, result="2")
    assert "1" == (await past(sql))["result"]


async def test_a_running_job_that_was_cancelled_is_kept_as_cancelled_without_a_result(sql: Session) -> None:
    """The cancellation was confirmed; its run counts as an attempt."""
    job = await add(sql)
    await keep_task(sql)
    claims = await fetch(sql)
    await sql.rows(CANCEL, job)
    await settle_rest(sql, claims, done=True, result="1", duration_s=2.0)
    ended = await past(sql)

    assert ("cancelled", None, 1) == (ended["state"], ended["result"], ended["attempts"])
    assert (timedelta(seconds=2), WORKER) == (ended["took"], ended["worker_id"])

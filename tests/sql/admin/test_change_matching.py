"""`change_matching` and `count_matching`: many jobs are changed by a filter, in steps."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from tests.support.acts import is_waiting
from tests.support.jobs import add, fetch
from tests.support.keyed import STATES, hold
from tests.support.session import KeptConnections, Session
from tests.support.waiting import wait_until

LAST = 2**62


async def change(
    sql: Session,
    action: str,
    start: int | None = None,
    *,
    most: int = 1000,
    up_to: int = LAST,
    options: Any = None,
    **given: Any,
) -> tuple[list[int], int | None]:
    """One step: the ids of the changed jobs, and where the next step begins."""
    text = "select changed, next_id from asyncq.change_matching($1::text::jsonb, $2, $3, $4, $5, $6::text::jsonb)"
    row = await sql.row(text, json.dumps(given), action, up_to, most, start, json.dumps(options or {}))
    return row["changed"], row["next_id"]


async def all_states(sql: Session) -> dict[str, int]:
    """A job in each state."""
    return {state: (await hold(sql, state, key=state))["id"] for state in STATES}


async def left(sql: Session) -> dict[int, str]:
    """The state of each job that is left."""
    return dict(map(tuple, await sql.rows("select id, asyncq._state(job) from asyncq._jobs as job")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "changed", "becomes"),
    [
        ("retry", {"retryable", "discarded"}, "available"),
        ("cancel", {*STATES} - {"discarded"}, None),
        ("complete", {*STATES} - {"active"}, None),
        ("discard", {*STATES} - {"active"}, "discarded"),
        ("remove", {*STATES} - {"active"}, None),
    ],
)
async def test_each_action_does_what_it_does_by_ids(
    sql: Session, action: str, changed: set[str], becomes: str | None
) -> None:
    """A job in a state that the action does not change is left alone."""
    ids = await all_states(sql)

    assert (sorted(ids[state] for state in changed), None) == await change(sql, action)
    states = await left(sql)
    assert {states.get(ids[state]) for state in changed if state != "active"} == {becomes}
    assert ("cancelled" if action == "cancel" else "active") == states[ids["active"]]


async def test_a_removed_job_leaves_no_failed_attempts(sql: Session) -> None:
    """Its traces may contain what must not be kept."""
    ids = await all_states(sql)
    await sql.rows("""
        insert into asyncq._attempts (job_id, lock_token, started_at, ended_at, worker_id, number, kind, error)
        select id, 1, now(), now(), 1, 1, 'failed', 'e' from asyncq._jobs""")
    await change(sql, "remove", state="discarded")

    assert sorted({*ids.values()} - {ids["discarded"]}) == await sql.values(
        "select job_id from asyncq._attempts order by 1"
    )


async def test_options_are_those_of_the_functions_for_ids(sql: Session) -> None:
    """They are checked as there."""
    job = await add(sql)
    await change(sql, "reschedule", options={"run_at": "2100-01-01T00:00:00Z", "priority": 3, "max_attempts": 2})
    row = await sql.row(
        "select extract(year from run_at at time zone 'UTC')::int, priority, max_attempts from asyncq._jobs"
    )
    await change(sql, "discard", options={"error": "withdrawn"})

    assert (2100, 3, 2) == tuple(row)
    assert [(job, "withdrawn")] == [tuple(row) for row in await sql.rows("select id, last_error from asyncq._jobs")]


@pytest.mark.parametrize(
    ("action", "options", "column"),
    [
        ("delete", {}, "action"),
        (None, {}, "action"),
        ("retry", {"priority": 1}, "options"),
        ("discard", {"message": "x"}, "options"),
        ("reschedule", {"priority": 40_000}, "priority"),
        ("reschedule", {"attempts": -1}, "attempts"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_name(
    sql: Session, action: str | None, options: dict[str, Any], column: str
) -> None:
    """Nothing is changed."""
    await add(sql)
    text = "select asyncq.change_matching('{}', $1, 1, 1000, null, $2::text::jsonb)"
    refused = await sql.refusal(text, action, json.dumps(options))

    assert column == refused.as_dict()["column_name"]


async def test_an_unknown_member_changes_nothing(sql: Session) -> None:
    """It would be a filter that all jobs match."""
    await add(sql)
    refused = await sql.refusal("""select asyncq.change_matching('{"tsk": "a"}', 'remove', 9999999999)""")

    assert 'unknown member "tsk"' in str(refused)


async def test_each_step_goes_on_where_the_last_one_ended(sql: Session) -> None:
    """A job that is changed may still match, and a later job is left alone."""
    ids = [await add(sql) for _ in range(5)]
    up_to = (await sql.row("select up_to_id from asyncq.count_matching('{}')"))[0]
    later = await add(sql)
    steps, start = list[Sequence[int]](), None
    while True:
        changed, start = await change(sql, "discard", start, most=2, up_to=up_to)
        steps.append(changed)
        if start is None:
            break

    assert [ids[:2], ids[2:4], ids[4:]] == steps
    assert "available" == (await left(sql))[later]


async def test_running_jobs_of_a_batch_are_cancelled(claiming: Session) -> None:
    """Their batch is split."""
    sql = claiming
    ids = [await add(sql) for _ in range(3)]
    await fetch(sql, 2, worker=7, form="batched")

    assert (ids[:2], None) == await change(sql, "cancel", state="active")
    assert {ids[0]: "cancelled", ids[1]: "cancelled", ids[2]: "available"} == await left(sql)


async def test_a_job_that_no_longer_matches_once_it_is_locked_is_left_alone(
    own: Session, kept_connections: KeptConnections
) -> None:
    """Another administrator retries a failed job while this one removes the failed ones."""
    job, other = await add(own), await add(own)
    await own.rows("update asyncq._jobs set attempts = 25")
    async with kept_connections.session(own.schema) as first, kept_connections.session(own.schema) as second:
        transaction = first.connection.transaction()
        await transaction.start()
        await first.rows("select asyncq.retry_jobs($1)", [job])
        done = list[tuple[list[int], int | None]]()

        async def remove() -> None:
            done.append(await change(second, "remove", state="discarded"))

        async with anyio.create_task_group() as group:
            group.start_soon(remove)
            await wait_until(lambda: is_waiting(own, second), description="the step waits for the row")
            await transaction.commit()

        assert [([other], None)] == done
    assert {job: "available"} == await left(own)


async def test_a_preview_counts_by_state(sql: Session) -> None:
    """Up to a maximum."""
    await all_states(sql)
    jobs = [await add(sql) for _ in range(3)]
    counted = await sql.row("select states::text, next_id, up_to_id from asyncq.count_matching('{}')")
    some = await sql.row('select states::text, next_id from asyncq.count_matching(\'{"task": "t"}\', most => 2)')

    assert ({state: 4 if state == "available" else 1 for state in STATES}, None) == (json.loads(counted[0]), counted[1])
    assert (jobs[-1], 2) == (counted["up_to_id"], sum(json.loads(some[0]).values()))
    assert some["next_id"] is not None


async def test_a_preview_counts_running_jobs_of_a_batch(claiming: Session) -> None:
    """They have no row of their own."""
    sql = claiming
    for _ in range(6):
        await add(sql)
    await fetch(sql, 2, worker=7, form="batched")
    await fetch(sql, 1, worker=7, form="rows")
    counted = await sql.value("select states::text from asyncq.count_matching('{}')")
    of_state = await sql.value('select states::text from asyncq.count_matching(\'{"state": "active"}\')')

    assert ({"active": 3, "available": 3}, {"active": 3}) == (json.loads(counted), json.loads(of_state))

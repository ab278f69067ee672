"""A job whose key went to a newer request while it ran: it is in its last attempt, with any outcome."""

import pytest

from tests.support.jobs import change, complete, fetch, fetched, locked_queues
from tests.support.keyed import Done, add_one, stored
from tests.support.session import Session

THOROUGH = True

LONG_AGO = "update asyncq._workers set last_seen = now() - interval '31 s'"


async def running_and_newer(sql: Session, payload: str = "[1]", *, worker: int = 1) -> tuple[Done, list, Done]:
    """Start a job of the key, and add a newer request. Returns the old job, its claim, and the new job."""
    old = await add_one(sql, payload=payload, queue="q")
    claims = await fetch(sql, worker=worker)
    new = await add_one(sql, payload="[2]", run_at="2040-01-01 00:00:00+00")
    return old, claims, new


async def test_both_requests_have_a_job(sql: Session) -> None:
    """One runs, the other waits. The key leads to the newer one."""
    old, _, new = await running_and_newer(sql)
    rows = await stored(sql)

    assert {old.id: None, new.id: "k"} == {id_: row["key"] for id_, row in rows.items()}
    assert ["[1]", "[2]"] == [row["payload"] for row in rows.values()]


async def test_when_it_succeeds_it_is_deleted(sql: Session) -> None:
    """Any completed job is deleted. Its claim is unchanged, and frees its queue."""
    old, claims, new = await running_and_newer(sql)

    assert [old.id] == await complete(sql, claims)
    assert ([new.id], []) == ([*await stored(sql)], await locked_queues(sql))


@pytest.mark.parametrize("attempts", [1, 32767])
async def test_when_it_fails_it_stays_dead(sql: Session, attempts: int) -> None:
    """Its error stays, and the newer request is its retry."""
    old, claims, _ = await running_and_newer(sql)
    await change(sql, claims, attempts=attempts, delay_s=0.0, error="late")
    row = (await stored(sql))[old.id]

    assert (25, "late", None) == (row["attempts"], row["last_error"], row["key"])
    assert ([], []) == (await fetched(sql), await locked_queues(sql))


async def test_when_its_worker_dies_it_stays_dead(sql: Session) -> None:
    """A lost run is an attempt, and this was the last."""
    (worker,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    old, _, _ = await running_and_newer(sql, worker=worker["id"])
    await sql.execute(
        "update asyncq._workers set started_claims = array(select id || '/' || lock_token from asyncq._jobs)"
    )
    await sql.execute(LONG_AGO)
    await sql.run("rescue_jobs", not THOROUGH, None)
    row = (await stored(sql))[old.id]

    assert (25, 25) == (row["attempts"], row["max_attempts"])
    assert row["last_error"].startswith("WorkerLost")
    assert [] == await fetched(sql)


async def test_when_it_was_never_started_it_runs(sql: Session) -> None:
    """Its worker returns it. No other job contains the elements of its array, for example."""
    old, claims, _ = await running_and_newer(sql)
    await change(sql, claims)
    (again,) = await fetch(sql, token=2)

    assert (old.id, "[1]", None) == (again["id"], again["payload"], again["key"])
    assert again["attempts"] + 1 == again["max_attempts"]


async def test_when_it_was_interrupted_or_snoozes_it_runs_again(sql: Session) -> None:
    """Neither counts as an attempt."""
    old, claims, _ = await running_and_newer(sql)
    await change(sql, claims, delay_s=0.0, interruptions=1)

    assert [old.id] == await fetched(sql)


async def test_a_job_with_one_attempt_gives_its_key_away_too(sql: Session) -> None:
    """It has none to lose."""
    await add_one(sql, max_attempts=1)
    claims = await fetch(sql)
    await add_one(sql, run_at="2040-01-01 00:00:00+00")
    await change(sql, claims, attempts=1, delay_s=0.0, error="late")

    assert [(1, 1), (0, 25)] == [(row["attempts"], row["max_attempts"]) for row in (await stored(sql)).values()]


async def test_a_third_request_changes_the_second(sql: Session) -> None:
    """One runs, one waits: never more."""
    old, _, new = await running_and_newer(sql)
    third = await add_one(sql, payload="[3]")
    rows = await stored(sql)

    assert Done("updated", new.id, new.id, "scheduled") == third
    assert ["[1]", "[2, 3]"] == [rows[id_]["payload"] for id_ in (old.id, new.id)]
    assert 2 == len(rows)

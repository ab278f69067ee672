"""`_store_requests`: a repeated request with an idempotency key gets the result of the first one."""

from typing import Any

import pytest

from tests.support.jobs import fetch, settle_rest
from tests.support.keyed import Done, stored
from tests.support.session import Session
from tests.support.unique import WINDOW_S, ask, ask_all, hold, spec

REQUESTS = (
    "select key, job_id, extract(epoch from keep_until - now())::int as left_s from asyncq._requests order by key"
)
ALL = ["completed", "cancelled", "discarded"]


async def kept(sql: Session) -> tuple[list[str] | None, float | None]:
    """The states in which the only job is kept after its end, and until when."""
    row = await sql.row("select keep_states, extract(epoch from keep_until - now())::float8 as s from asyncq._jobs")
    return row["keep_states"], row["s"]


async def test_a_repeated_request_returns_the_same_job(sql: Session) -> None:
    """The job may have any state by then."""
    first = await ask(sql, idempotency_key="k")
    waiting = await ask(sql, idempotency_key="k")
    claims = await fetch(sql)
    running = await ask(sql, idempotency_key="k")
    await settle_rest(sql, claims, done=True)
    gone = await ask(sql, idempotency_key="k")

    assert Done("added", first.id) == first
    assert [Done("deduplicated", first.id, first.id, state) for state in ("available", "active", "completed")] == [
        *(waiting, running, gone),
    ]
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_job_of_a_request_is_kept_for_as_long_as_the_request(sql: Session) -> None:
    """In every final state it is kept for 24 hours."""
    done = await ask(sql, idempotency_key="k")
    states, left_s = await kept(sql)

    assert [("k", done.id, WINDOW_S)] == [tuple(row) for row in await sql.rows(REQUESTS)]
    assert (ALL, pytest.approx(WINDOW_S, abs=5)) == (states, left_s)


async def test_the_time_of_a_request_is_not_extended(sql: Session) -> None:
    """A caller that asks again each minute would never get a new job."""
    await ask(sql, idempotency_key="k")
    await sql.execute("update asyncq._requests set keep_until = now() + interval '1 minute'")
    await ask(sql, idempotency_key="k")

    assert [60] == [row["left_s"] for row in await sql.rows(REQUESTS)]


async def test_an_update_is_not_made_twice(sql: Session) -> None:
    """A batch that gathers would hold the element twice."""
    await ask(sql, job_key="k", payload=[1])
    updated = await ask(sql, job_key="k", payload=[2], idempotency_key="r")
    again = await ask(sql, job_key="k", payload=[2], idempotency_key="r")
    (row,) = (await stored(sql)).values()

    assert (Done("updated", row["id"], row["id"], "available"), "[1, 2]") == (updated, row["payload"])
    assert Done("deduplicated", row["id"], row["id"], "available") == again
    assert ALL == (await kept(sql))[0]


@pytest.mark.parametrize(
    "given",
    [{"job_key": "k", "mode": "unsafe_dedupe"}, {"unique": {"on_conflict": "ignore"}}, {"singleton": True}],
    ids=str,
)
async def test_a_dropped_request_is_remembered(sql: Session, given: dict[str, Any]) -> None:
    """It was answered with a job; asked again after that job has ended, it must not become another one."""
    held = await ask(sql, **given)
    dropped = await ask(sql, **given, idempotency_key="r")
    states, left_s = await kept(sql)
    await settle_rest(sql, await fetch(sql), done=True)
    again = await ask(sql, **given, idempotency_key="r")

    assert Done("deduplicated", held.id, held.id, "available") == dropped
    assert (ALL, pytest.approx(WINDOW_S, abs=5)) == (states, left_s)
    assert Done("deduplicated", held.id, held.id, "completed") == again


async def test_a_rerun_is_remembered_once(sql: Session) -> None:
    """The second time it returns the first answer, even if another rerun came between."""
    job = await hold(sql, "active")
    asked = [
        await ask(sql, singleton=True, rerun=True, payload=n, idempotency_key=key)
        for n, key in ((1, "a"), (2, "b"), (1, "a"))
    ]

    assert ["updated", "updated", "deduplicated"] == [done.outcome for done in asked]
    assert {job} == {done.id for done in asked}
    assert "2" == await sql.value("select rerun::text from asyncq._jobs")


async def test_a_rejected_request_is_not_remembered(sql: Session) -> None:
    """It added no job: the next one is decided on its own."""
    await ask(sql, {})
    rejected = await ask(sql, {}, idempotency_key="r")
    await sql.execute("delete from asyncq._jobs")

    assert ["rejected", "added"] == [rejected.outcome, (await ask(sql, {}, idempotency_key="r")).outcome]


async def test_a_request_is_asked_about_before_everything_else(sql: Session) -> None:
    """Its job may have lost its key to another one since."""
    first = await ask(sql, {"on_conflict": "replace"}, idempotency_key="a")
    second = await ask(sql, {"on_conflict": "replace"}, idempotency_key="b")
    again = await ask(sql, {"on_conflict": "replace"}, idempotency_key="a")

    assert Done("added", second.id, first.id, "available") == second
    assert (first.id, "deduplicated") == (again.id, again.outcome)
    assert [second.id] == [*(await stored(sql))]


async def test_an_ended_job_that_answers_a_request_is_known_for_as_long(sql: Session) -> None:
    """It was kept for a policy, for less time perhaps."""
    job = await hold(sql, "completed")
    await sql.execute("update asyncq._ended_jobs set keep_until = now() + interval '1 h'")
    await ask(sql, {"states": ["completed"], "on_conflict": "ignore"}, idempotency_key="r")

    assert [job] == await sql.values("select id from asyncq._ended_jobs where keep_until > now() + interval '23 h'")


async def test_the_same_request_twice_in_one_call_is_one(sql: Session) -> None:
    """Single adds behave the same."""
    done = await ask_all(sql, [spec(idempotency_key="a"), spec(), spec(idempotency_key="a"), spec(idempotency_key="b")])

    assert Done("deduplicated", done[0].id, done[0].id, "available") == done[2]
    assert 3 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_request_that_is_rolled_back_was_never_made(own: Session) -> None:
    """It is part of the transaction, as its job is."""
    transaction = own.connection.transaction()
    await transaction.start()
    await ask(own, idempotency_key="k")
    await transaction.rollback()

    assert "added" == (await ask(own, idempotency_key="k")).outcome


async def test_keys_may_hold_any_character(sql: Session) -> None:
    """Keys are often ids of users."""
    for key in (" ", "'", '"', "\\", "{a}", "null", "\n", "é", "🔑" * 200):
        first = await ask(sql, idempotency_key=key)

        assert first.id == (await ask(sql, idempotency_key=key)).id

"""`_add_in_pieces`: the same key several times in one call, as if the jobs were added one by one."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from tests.support.keyed import Done, stored
from tests.support.session import Session
from tests.support.unique import ALL_STATES, HELD, STRATEGIES, ask, ask_all, hold, left, spec

Adder = Callable[[Session, Sequence[dict[str, Any]]], Awaitable[list[Done]]]

TIMES = (None, "2040-01-01T00:00:00Z", "2000-01-01T00:00:00Z")
LISTED = (ALL_STATES, ["available", "scheduled"], ["scheduled"], ["active", "completed"], None)


async def one_by_one(sql: Session, specs: Sequence[dict[str, Any]]) -> list[Done]:
    """Add jobs in as many calls."""
    return [(await ask_all(sql, [one]))[0] for one in specs]


async def outcome(sql: Session, adder: Adder, specs: Sequence[dict[str, Any]]) -> Any:
    """Add specs and roll back. Returns answers, rows and requests, or the error."""
    transaction = sql.connection.transaction()
    await transaction.start()
    try:
        # Of a sequence that was never used the last value is the first one.
        last = await sql.value("select case when is_called then last_value else 0 end from asyncq._jobs_id_seq")
        done = await adder(sql, specs)
        rows = await sql.rows("""
            select id, run_at, unique_key, key, payload::text, rerun::text, attempts, locked_by,
              cancelled_at is not null, keep_until > now() + interval '23 h', keep_until = 'infinity', keep_states,
              queue
            from asyncq._jobs order by id""")
        ended = await sql.rows("select id, state, unique_key from asyncq._ended_jobs order by id")
        requests = await sql.rows("select key, job_id, digest from asyncq._requests order by key")
        seen = {row["id"] for row in [*rows, *ended]}.union(*({one.id, one.existing_id} for one in done)) - {None}
        # Ids are compared by their order: those of the call are new in each turn.
        new = sorted(id_ for id_ in seen if id_ > last)
        names = {None: None} | {id_: id_ for id_ in seen} | {id_: f"new {place}" for place, id_ in enumerate(new)}
        # In what state the job of a repeated request is, at one moment of the call or another, is no promise.
        states = [
            None if "idempotency_key" in (one["options"] or {}) else answer.existing_state
            for one, answer in zip(specs, done, strict=True)
        ]
        return (
            [
                one._replace(id=names[one.id], existing_id=names[one.existing_id], existing_state=state)
                for one, state in zip(done, states, strict=True)
            ],
            [(names[row["id"]], *tuple(row)[1:]) for row in rows],
            [(names[row["id"]], *tuple(row)[1:]) for row in ended],
            [(row["key"], names[row["job_id"]], row["digest"]) for row in requests],
        )
    except asyncpg.PostgresError as error:
        return error.sqlstate, error.column_name
    finally:
        await transaction.rollback()


def some_spec(rng: random.Random, kinds: Sequence[str]) -> dict[str, Any]:
    """A spec of one of these kinds, whose key others may have."""
    kind = rng.choice(kinds)
    task = rng.choice("ab")
    given: dict[str, Any] = {"task": task, "payload": {"n": rng.randrange(3)}}
    if time := rng.choice(TIMES):
        given["run_at"] = time
    if "request" in kind:
        # One payload for each key: another one is an error, which has a test of its own.
        given |= {"task": "a", "payload": {"n": 0}, "idempotency_key": rng.choice("xyz")}
    if "key" in kind:
        given |= {"job_key": rng.choice("kl"), "mode": rng.choice(("replace", "preserve_run_at", "unsafe_dedupe"))}
    if "policy" in kind:
        states = rng.choice(LISTED)
        policy: dict[str, Any] = {"on_conflict": rng.choice(STRATEGIES), "states": states}
        if rng.random() < 0.3:
            policy |= {"period": rng.choice(("P2D", "PT0S", "PT1H"))}
        if policy["on_conflict"] in ("reject", "ignore") and rng.random() < 0.3:
            given["rerun"] = True
        given["unique"] = policy
    if "singleton" in kind:
        given |= {"singleton": True} | rng.choice(({}, {"subject": "s"}, {"rerun": True}, {"force": True}))
    if "forced" in kind:
        given |= {"singleton": True, "force": True}
    if "alike" in kind:
        given["unique"] = {"on_conflict": rng.choice(("reject", "ignore"))}
    return spec(**given)


KINDS = {
    "policies": ["policy", "policy", "plain"],
    "all alike": ["alike", "alike", "plain"],
    "singletons": ["singleton", "singleton", "plain"],
    "requests": ["request", "plain"],
    "requests with policies": ["request policy", "request singleton", "request", "policy"],
    "with job keys": ["key", "key request", "singleton", "forced key", "request singleton", "policy"],
}


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(10))
async def test_a_call_is_as_if_its_jobs_were_added_one_by_one(sql: Session, kinds: str, seed: int) -> None:
    """Answers, rows, their order, and remembered requests are equal, beside jobs in any state."""
    rng = random.Random(f"{kinds} {seed}")
    for state in rng.sample(HELD, rng.randrange(3)):
        await hold(sql, state, rng.choice(("1 minute", "1 day")), task=rng.choice("ab"))
    specs = [some_spec(rng, KINDS[kinds]) for _ in range(rng.randint(2, 12))]
    expected = await outcome(sql, one_by_one, specs)

    assert expected == await outcome(sql, ask_all, specs), specs


async def test_the_earlier_job_of_a_call_conflicts_with_the_later_one(sql: Session) -> None:
    """It exists already, though other transactions do not see it yet."""
    for strategy, outcome_, found in (
        ("reject", "rejected", 0),
        ("ignore", "deduplicated", 0),
        ("replace", "added", 1),
    ):
        done = await ask_all(sql, [spec({"on_conflict": strategy}, payload={"n": n}) for n in range(2)])
        kept = await sql.values("select payload ->> 'n' from asyncq._jobs")
        await sql.execute("delete from asyncq._jobs")

        assert ["added", outcome_] == [one.outcome for one in done]
        assert (done[0].id, "available") == done[1][2:]
        assert [str(found)] == kept


async def test_new_jobs_have_ids_in_the_order_of_the_specs(sql: Session) -> None:
    """Equal jobs run by id, also when some of the call replace others of it."""
    replace = {"on_conflict": "replace"}
    done = await ask_all(sql, [spec(replace), spec(), spec(replace), spec(), spec(replace), spec(task="u")])
    ids = [one.id for one in done]

    assert sorted(ids) == ids
    assert ["added"] * 6 == [one.outcome for one in done]
    assert {1, 3, 4, 5} == {ids.index(job) for job in await left(sql)}


async def test_of_rerun_requests_in_one_call_the_last_is_remembered(sql: Session) -> None:
    """Several calls behave the same."""
    existing = await hold(sql, "active")
    done = await ask_all(sql, [spec(singleton=True, rerun=True, payload={"n": n}) for n in range(3)])

    assert [Done("updated", existing, existing, "active")] * 3 == done
    assert '{"n": 2}' == await sql.value("select rerun::text from asyncq._jobs")


async def test_ten_thousand_jobs_of_fifty_subjects_in_one_call(sql: Session) -> None:
    """It needs no separate step for each of them."""
    specs = [spec(singleton=True, subject=f"{number % 50}") for number in range(10_000)]
    done = await ask_all(sql, specs)

    assert ["added"] * 50 + ["deduplicated"] * 9_950 == [one.outcome for one in done]
    assert [one.id for one in done[:50]] * 200 == [one.id for one in done]


async def test_a_thousand_jobs_of_one_key_that_replace_each_other(sql: Session) -> None:
    """Slow is allowed, an error is not."""
    done = await ask_all(sql, [spec({"on_conflict": "replace"}, payload=number) for number in range(1000)])

    assert [str(999)] == [row["payload"] for row in (await stored(sql)).values()]
    assert [None, *(one.id for one in done[:-1])] == [one.existing_id for one in done]


async def test_names_of_all_pieces_are_stored_at_once(sql: Session) -> None:
    """They are stored in alphabetical order. Piece by piece, two calls could deadlock."""
    policy = {"keys": ["args"], "on_conflict": "replace"}
    await ask_all(sql, [spec(policy, task=name, payload=1) for name in ("c", "b", "c", "a")])

    assert ["a", "b", "c"] == await sql.values("select identifier from asyncq._tasks order by id")


async def test_one_bad_job_refuses_the_call(sql: Session) -> None:
    """The call adds all jobs or none. The error has the place of the job in the call, not in its piece."""
    specs = [spec(idempotency_key="a", payload=1), spec(idempotency_key="b"), spec(idempotency_key="a", payload=2)]
    with pytest.raises(asyncpg.PostgresError) as caught:
        async with sql.connection.transaction():
            await ask_all(sql, specs)

    assert ("GWBIK", "idempotency_key", "Job 3 of 3.") == (
        *(caught.value.sqlstate, caught.value.column_name, caught.value.detail),
    )
    assert "added" == (await ask(sql)).outcome

"""`_lock_key_holders`: the keys are locked, then the jobs that hold them."""

import json
from typing import Any

import asyncpg
import pytest

from tests.support import unique
from tests.support.keyed import STATES, Spec, add_all, hold
from tests.support.session import Session, session

HOLD = """
select asyncq._lock_key_holders(
  array(select asyncq._new_job('t', null, null, null, null, job_key => key) from unnest($1::text[]) as key), false)
"""
LOCK = "select from asyncq._jobs where id = $1 for no key update nowait"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["a"], "new"),
        (["a", None, "b"], "new"),
        ([None], "new"),
        (["k"], "taken"),
        (["a", "k", None], "taken"),
        (["a", "a"], "repeated"),
        (["a", None, "k", "a"], "repeated"),
        (["k", "k"], "repeated"),
    ],
)
async def test_it_returns_the_kinds_of_holders(sql: Session, keys: list[str | None], said: str) -> None:
    """A call with new keys can be as simple as one without keys."""
    await hold(sql, "scheduled")

    assert said == await sql.value(HOLD, keys)


@pytest.mark.parametrize("state", STATES)
async def test_a_holder_is_locked_in_every_state(dsn: str, own: Session, state: str) -> None:
    """Waiting jobs could start, running ones end, dead ones be revived by hand: not before the act."""
    holder = await hold(own, state)
    async with session(dsn, own.schema) as other, own.connection.transaction():
        await own.value(HOLD, ["k"])

        assert "55P03" == (await other.refusal(LOCK, holder["id"])).sqlstate
    await own.execute("delete from asyncq._jobs")


async def test_other_jobs_are_left_alone(dsn: str, own: Session) -> None:
    """They have other keys, or none."""
    done = await add_all(own, [Spec(), Spec(key="other"), Spec(key=None)])
    async with session(dsn, own.schema) as other, own.connection.transaction():
        await own.value(HOLD, ["k", None])

        assert [[], []] == [await other.rows(LOCK + " offset 1", one.id) for one in done[1:]]


async def test_a_handler_may_hold_its_own_row_meanwhile(dsn: str, own: Session) -> None:
    """A transactional handler holds it by `for key share`, and may add the very key: each would wait for the other."""
    holder = await hold(own, "active")
    async with session(dsn, own.schema, lock_timeout="100ms") as other, own.connection.transaction():
        await own.rows("select from asyncq._jobs where id = $1 for key share", holder["id"])
        (done,) = await add_all(other, [Spec()])
    await own.execute("delete from asyncq._jobs")

    assert ("added", holder["id"]) == (done.outcome, done.existing_id)


# Unique policies and requests

HOLD_ASKED = """
select asyncq._lock_key_holders(
  array_agg(
    asyncq._new_job(
      spec ->> 'task', null, null, null,
      asyncq._extra((spec ->> 'options')::jsonb, spec ->> 'task', null, null, spec ->> 'job_key'),
      job_key => spec ->> 'job_key') order by ord),
  true)
from json_array_elements($1::text::json) with ordinality as given(spec, ord)
"""


async def held(sql: Session, *specs: dict[str, Any]) -> str:
    """Hold what jobs ask about."""
    return await sql.value(HOLD_ASKED, json.dumps(specs))


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([{"task": "u"}], "new"),
        ([{"task": "t"}], "taken"),
        ([{"task": "t", "force": True}], "new"),
        ([{"task": "u"}, {"task": "v"}], "new"),
        ([{"task": "u"}, {"task": "u"}], "repeated"),
        ([{"task": "u"}, {"task": "u", "subject": "a"}], "new"),
        ([{"task": "u", "idempotency_key": "a"}, {"task": "v", "idempotency_key": "a"}], "repeated"),
        ([{"task": "u", "idempotency_key": "k", "force": True, "job_key": "k"}], "taken"),
        ([{"task": "u"}, {"task": "v", "force": True, "job_key": "k"}], "repeated"),
    ],
    ids=str,
)
async def test_it_returns_the_kinds_of_holders_of_unique_keys(
    sql: Session, specs: list[dict[str, Any]], said: str
) -> None:
    """Keys of different kinds differ, even with equal texts."""
    await unique.hold(sql, "scheduled")

    assert said == await held(sql, *(unique.spec(singleton=True, **given) for given in specs))


@pytest.mark.parametrize("strategy", unique.STRATEGIES)
@pytest.mark.parametrize("state", unique.LIVE)
async def test_a_job_that_has_the_unique_key_is_locked(dsn: str, own: Session, state: str, strategy: str) -> None:
    """Every strategy locks it: ignoring a job that just ends would drop the request.

    A discarded job is locked only if the policy includes that state, since there may be thousands.
    """
    holder = await unique.hold(own, state)
    looks = state != "discarded"
    async with session(dsn, own.schema) as other:
        for states, is_locked in ((["active"], looks), (["active", "discarded"], True)):
            async with own.connection.transaction():
                await held(own, unique.spec({"states": states, "on_conflict": strategy}))
                locked = [error.sqlstate for error in [await refused(other, holder)] if error]

            assert ["55P03"] * is_locked == locked
    await own.execute("delete from asyncq._jobs")


async def refused(other: Session, job: int) -> asyncpg.PostgresError | None:
    """The error of another session that wants the row, or None."""
    try:
        await other.rows(LOCK, job)
    except asyncpg.PostgresError as error:
        return error
    return None


HASH, OTHER = (rf"\\x{pair * 32}" for pair in ("ab", "cd"))
REMEMBERED = {
    "no policy": ("{}", "new"),
    "states that live": (f'{{"unique_key": "{HASH}", "states": ["available", "active"]}}', "new"),
    "an ended state, and an ended job": (f'{{"unique_key": "{HASH}", "states": ["active", "completed"]}}', "taken"),
    "an ended state, and no ended job": (f'{{"unique_key": "{OTHER}", "states": ["active", "completed"]}}', "new"),
    "a request": ('{"idempotency_key": "r", "window_s": 1}', "taken"),
}


@pytest.mark.parametrize(("extra", "said"), REMEMBERED.values(), ids=REMEMBERED)
async def test_remembered_requests_and_ended_jobs_count_if_needed(sql: Session, extra: str, said: str) -> None:
    """Requests are always checked. Ended jobs are checked only if a policy includes them and some exist."""
    await sql.execute(f"""
        insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
          values (1, now(), now(), 'infinity', 1, 'completed', '{HASH[1:]}')""")

    assert said == await sql.value(
        "select asyncq._lock_key_holders(array[asyncq._new_job('t', null, null, null, $1::text::jsonb)], true)", extra
    )

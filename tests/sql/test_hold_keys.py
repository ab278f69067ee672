"""`_hold_keys`: gate and check; the jobs that hold the keys stand still from then on."""

import pytest

from tests.sql.keyed import STATES, Spec, add_all, hold
from tests.sql.session import Session, session

HOLD = "select asyncq._hold_keys($1::text[])"
LOCK = "select from asyncq._jobs where id = $1 for no key update nowait"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["a"], "free"),
        (["a", None, "b"], "free"),
        ([None], "free"),
        (["k"], "held"),
        (["a", "k", None], "held"),
        (["a", "a"], "doubled"),
        (["a", None, "k", "a"], "doubled"),
        (["k", "k"], "doubled"),
    ],
)
async def test_what_the_act_has_to_heed_is_said(sql: Session, keys: list[str | None], said: str) -> None:
    """A call with free keys is as simple as one without keys."""
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
    """Of other keys, and of none."""
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

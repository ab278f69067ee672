"""`_check_requests`: an idempotency key belongs to one request."""

from typing import Any

import asyncpg
import pytest

from tests.support.session import Session
from tests.support.unique import ask, ask_all, spec

SAID = "idempotency_key was used before for another task or payload: a new request needs a new key"


async def refusal(sql: Session, *specs: dict[str, Any]) -> asyncpg.PostgresError:
    """The error of a refused call; the transaction continues."""
    with pytest.raises(asyncpg.PostgresError) as caught:
        async with sql.connection.transaction():
            await ask_all(sql, specs)
    return caught.value


@pytest.mark.parametrize("change", [{"payload": {"n": 2}}, {"task": "u"}, {"payload": None}], ids=str)
async def test_another_request_under_the_key_is_refused(sql: Session, change: dict[str, Any]) -> None:
    """A key that is used twice by mistake would make the second request vanish."""
    await ask(sql, payload={"n": 1}, idempotency_key="secret")
    error = await refusal(sql, spec(**{"payload": {"n": 1}, "idempotency_key": "secret"} | change))

    assert ("GWBIK", "idempotency_key", SAID) == (error.sqlstate, error.column_name, error.message)
    assert "secret" not in f"{error.message} {error.detail} {error.context}"
    assert 1 == await sql.value("select count(*) from asyncq._jobs")


async def test_the_first_job_of_the_call_that_is_wrong_is_named(sql: Session) -> None:
    """Its key may have been used before, or earlier in the call."""
    await ask(sql, idempotency_key="a", payload=1)
    right = [spec(idempotency_key="a", payload=1), spec(), spec(idempotency_key="b", payload=1)]
    before = await refusal(sql, *right, spec(idempotency_key="a", payload=2), spec(idempotency_key="b", payload=2))
    earlier = await refusal(sql, *right, spec(idempotency_key="b", payload=2))

    assert ("Job 4 of 5.", "Job 4 of 4.") == (before.detail, earlier.detail)


async def test_other_options_of_the_call_do_not_count(sql: Session) -> None:
    """A retry may give another due time; the request is the task and the payload."""
    first = await ask(sql, payload={"a": 1, "b": 2}, idempotency_key="k")
    again = await ask(
        sql, payload={"b": 2, "a": 1}, idempotency_key="k", queue="q", run_at="2040-01-01T00:00:00Z", meta={"try": 2}
    )

    assert (first.id, "deduplicated") == (again.id, again.outcome)


async def test_an_expired_key_may_be_used_for_another_request(sql: Session) -> None:
    """This holds before and after it is pruned."""
    await ask(sql, payload=1, idempotency_key="k")
    await sql.execute("update asyncq._requests set keep_until = now() - interval '1 s'")

    assert "added" == (await ask(sql, payload=2, idempotency_key="k")).outcome
    assert "GWBIK" == (await refusal(sql, spec(payload=1, idempotency_key="k"))).sqlstate

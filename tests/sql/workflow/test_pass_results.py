"""`_pass_results`, `_with_inputs`: a job that takes the results of others, whatever ends these."""

import json
from collections.abc import Awaitable, Callable

import pytest

from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.waits import broken_laws, left, look, state, wait_for

Payload = dict[str, object] | list[object] | str | int | None
INPUTS = "select count(*) from asyncq._inputs"
PAYLOAD = "select payload::text from asyncq._jobs where id = $1"
LARGEST = 16_777_216


async def payload(sql: Session, job: int) -> Payload:
    """The payload of a job."""
    return json.loads(await sql.value(PAYLOAD, job))


async def end(sql: Session, job: int, result: str | None) -> None:
    """Run it, and let it return this."""
    await settle_rest(sql, [claim for claim in await fetch(sql) if claim["id"] == job], done=True, result=result)


async def in_its_own_transaction(sql: Session, job: int) -> None:
    """Its handler completes it."""
    (claim,) = await fetch(sql)
    async with sql.connection.transaction():
        (locked,) = await sql.run("lock_claim", 1, job, claim["lock_token"])
        await sql.run("complete_claim", 1, job, claim["lock_token"], locked["xid"], "7", 1.0, None, None)


async def by_a_worker(sql: Session, job: int) -> None:
    """Its worker settles it."""
    await end(sql, job, "7")


async def after_a_try_as_a_plain_job(sql: Session, job: int) -> None:
    """Its worker did not know that it is awaited."""
    claims = await fetch(sql)
    assert [] == await complete(sql, claims)
    await settle_rest(sql, claims, done=True, result="7")


async def by_hand(sql: Session, job: int) -> None:
    """An administrator completes it."""
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)


@pytest.mark.parametrize(
    ("act", "expected"),
    [(by_a_worker, 7), (in_its_own_transaction, 7), (after_a_try_as_a_plain_job, 7), (by_hand, None)],
)
async def test_the_result_of_a_job_becomes_the_payload_of_the_job_that_takes_it(
    sql: Session, act: Callable[[Session, int], Awaitable[None]], expected: int | None
) -> None:
    """Whatever ends it well. The job itself is not kept."""
    job = await add(sql)
    waiter = await wait_for(sql, job, takes="result")
    await act(sql, job)

    assert [("released", waiter, None)] == await look(sql)
    assert (expected, None, 0) == (await payload(sql, waiter), await state(sql, job), await sql.value(INPUTS))
    assert await sql.value("select extras from asyncq._jobs where id = $1", waiter) is None


async def test_results_are_in_the_order_of_after(sql: Session) -> None:
    """A job that failed is null."""
    jobs = [await add(sql) for _ in range(3)]
    waiter = await wait_for(sql, jobs[2], jobs[0], jobs[1], takes="results", if_failed="run")
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", jobs[0])
    claims = {claim["id"]: claim for claim in await fetch(sql)}
    await settle_rest(sql, [claims[jobs[1]]], done=True, result='{"a": 1e400}')
    await settle_rest(sql, [claims[jobs[2]]], done=True, result='"two"')
    await look(sql)

    assert '["two",null,{"a": 1e400}]' == await sql.value(PAYLOAD, waiter)
    assert ((0, 0), 0, []) == (await left(sql), await sql.value(INPUTS), await broken_laws(sql))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("{}", {"parts": [7]}), (' { "a": {} } ', {"a": {}, "parts": [7]}), ("[1]", {"parts": [7]})],
)
async def test_results_are_a_member_of_the_payload(sql: Session, given: str, expected: Payload) -> None:
    """The other members stay."""
    job = await add(sql)
    options = json.dumps({"after": [job], "takes": "results", "takes_as": "parts"})
    waiter = await sql.value(
        "select id from asyncq.add_job('w', payload => $1::text::json, options => $2::text::jsonb)", given, options
    )
    await end(sql, job, "7")
    await look(sql)

    assert expected == await payload(sql, waiter)


async def test_the_results_of_jobs_that_have_ended_are_taken_from_the_history(sql: Session) -> None:
    """They may be pruned before the job starts."""
    first, second = await add(sql), await add(sql)
    await sql.rows("update asyncq._tasks set keep_s = 3600")
    claims = {claim["id"]: claim for claim in await fetch(sql)}
    await complete(sql, [claims[first]], kept=True)
    waiter = await wait_for(sql, second, first, takes="results")
    await sql.rows("delete from asyncq._ended_jobs")
    await settle_rest(sql, [claims[second]], done=True)
    await look(sql)

    assert [None, first] == await payload(sql, waiter)


@pytest.mark.parametrize(("takes_as", "expected"), [(None, []), ("parts", {"parts": []})])
async def test_the_results_of_no_jobs_are_an_empty_list(sql: Session, takes_as: str | None, expected: Payload) -> None:
    """It waits for nothing."""
    waiter = await wait_for(sql, takes="results", takes_as=takes_as)

    assert ("available", expected) == (await state(sql, waiter), await payload(sql, waiter))


async def test_results_that_are_too_large_together_discard_the_job(sql: Session) -> None:
    """It can never start. What waits for it is blocked."""
    await add_many(sql, 2)
    jobs = [claim["id"] for claim in await fetch(sql)]
    waiter = await wait_for(sql, *jobs, takes="results")
    last = await wait_for(sql, waiter, takes="result")
    half = f'"{"a" * (LARGEST // 2)}"'
    claims = await sql.rows("select id, lock_token from asyncq._jobs where locked_by is not null")
    for claim in claims:
        await settle_rest(sql, [claim], done=True, result=half)
    outcomes = await look(sql)

    assert [("refused", waiter, None), ("blocked", last, waiter)] == outcomes
    assert ("discarded", "pending", 0) == (await state(sql, waiter), await state(sql, last), await sql.value(INPUTS))
    error = await sql.value("select last_error from asyncq._jobs where id = $1", waiter)
    assert error.startswith("InputsRefused: the results of the jobs that it waited for are larger")


async def test_a_job_that_ends_before_it_is_released_leaves_no_results(sql: Session) -> None:
    """Nobody would take them."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs, takes="results")
    await end(sql, jobs[0], "7")
    assert 1 == await sql.value(INPUTS)
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", waiter)

    assert 0 == await sql.value(INPUTS)


async def test_results_without_a_waiter_are_pruned(sql: Session) -> None:
    """Those of a waiter stay."""
    jobs = [await add(sql), await add(sql)]
    waiter = await wait_for(sql, *jobs, takes="results")
    await end(sql, jobs[0], "7")
    await sql.rows("insert into asyncq._inputs values (1000000, 1, 1, '7')")
    await sql.run("prune", 1.0, 1.0, 10)

    assert [waiter] == await sql.values("select waiter from asyncq._inputs")


async def test_a_job_waits_for_an_earlier_one_of_its_call_by_its_place(sql: Session) -> None:
    """So a workflow is one call."""
    ids = await sql.value("""
        select ids from asyncq._add_many_jobs(array[
          asyncq._new_job('t', null, null, null, null),
          asyncq._new_job('w', null, null, null, '{"after": [-1], "extras": {"takes": "result", "inputs": 1}}')])
    """)
    await end(sql, ids[0], "7")

    assert [("released", ids[1], None)] == await look(sql)
    assert 7 == await payload(sql, ids[1])


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('{"after": [-2]}', "a job of a workflow waits for a later one, job 2"),
        ('{"after": [-9]}', "a job of a workflow waits for a later one, job 9"),
        (
            '{"after": [-1], "job_key": "k"}',
            "a job of a workflow goes without job_key, unique, singleton and idempotency_key",
        ),
    ],
)
async def test_a_place_that_is_no_earlier_job_is_refused(sql: Session, extra: str, said: str) -> None:
    """Each wait leads to an earlier job: there are no cycles."""
    error = await sql.refusal(
        """
        select from asyncq._add_many_jobs(array[
          asyncq._new_job('t', null, null, null, null), asyncq._new_job('w', null, null, null, $1::text::jsonb)])
        """,
        extra,
    )

    assert ("GWBAF", said) == (error.sqlstate, error.message)

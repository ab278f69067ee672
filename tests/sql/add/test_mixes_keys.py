"""`_mixes_keys`: whether two jobs of a call without a common key may conflict by a job that has keys of both kinds."""

from tests.support.session import Session
from tests.support.unique import ask, ask_all, spec

MIXES = """
select asyncq._mixes_keys(array(
  select asyncq._new_job('t', null, null, null, extra::jsonb, job_key => key)
  from unnest($1::text[], $2::text[]) as given(key, extra)))
"""
KEY = r'{"unique_key": "\\xaa"}'


async def test_a_job_of_the_call_with_both_mixes_them(sql: Session) -> None:
    """A request has no such key."""
    cases = [
        ([None], [KEY]),
        (["k"], [None]),
        (["k", None], [None, KEY]),
        (["k"], ['{"idempotency_key": "r"}']),
        (["k"], [KEY]),
        (["k", None], [KEY, None]),
        (None, [KEY]),
    ]

    assert [False, False, False, False, True, True, False] == [await sql.value(MIXES, *case) for case in cases]


async def test_an_existing_job_with_both_keys_mixes_them(sql: Session) -> None:
    """Only a job whose job key is in the call counts."""
    await ask(sql, singleton=True, force=True, job_key="k")

    assert [True, False] == [await sql.value(MIXES, [key, None], [None, KEY]) for key in ("k", "l")]


async def test_a_job_that_loses_its_unique_key_in_the_call_conflicts_with_no_later_one(sql: Session) -> None:
    """The order counts as for single adds: it does conflict with jobs before it."""
    outcomes = []
    for specs in ([spec(job_key="k"), spec(singleton=True)], [spec(singleton=True), spec(job_key="k")]):
        held = await ask(sql, singleton=True, force=True, job_key="k")
        done = await ask_all(sql, specs)
        outcomes.append([(one.outcome, one.existing_id == held.id) for one in done])
        await sql.execute("delete from asyncq._jobs")

    assert [("updated", True), ("added", False)] == outcomes[0]
    assert [("deduplicated", True), ("updated", True)] == outcomes[1]

"""`_add_many_jobs`, which the Python client calls: its single row has the values of all rows of `_add_jobs`."""

import json
from typing import Any

import pytest

from tests.support.keyed import STATES
from tests.support.session import Session

CALL = """
select {columns} from asyncq.{function}(array(
  select asyncq._new_job(task, null, null, null, extra::jsonb, job_key => key, job_key_mode => mode)
  from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as given(task, key, mode, extra, ord)
  order by ord)) as added
"""
ONE_ROW = CALL.format(function="_add_many_jobs", columns="to_jsonb(added)")
ROWS = CALL.format(
    function="_add_jobs",
    columns="jsonb_agg(jsonb_build_array(ord, outcome, id, existing_id, existing_state) order by ord)",
)
ASKS = r'{{"unique_key": "\\x{:064d}", "on_conflict": "{}"}}'

# The keys, their modes, what each job asks, and what all that comes to: a job with the key k runs, one with the unique
# key 1 waits.
Column = list[str | None] | None
ADDED = ("added", None)
CASES: dict[str, tuple[Column, Column, Column, list[tuple[str, str | None]]]] = {
    "nothing": (None, None, None, [ADDED] * 3),
    "nulls": ([None] * 3, [None] * 3, [None] * 3, [ADDED] * 3),
    "free keys": (["x", None, "y"], None, None, [ADDED] * 3),
    "a key that is held": (["x", "k", None], None, None, [ADDED, ("added", "active"), ADDED]),
    "one that only looks": (
        [None, None, "k"],
        [None, None, "unsafe_dedupe"],
        None,
        [ADDED, ADDED, ("deduplicated", "active")],
    ),
    "doubled keys": (["x", None, "x"], None, None, [ADDED, ADDED, ("updated", "available")]),
    "free policies": (None, None, [ASKS.format(2, "reject"), None, ASKS.format(3, "ignore")], [ADDED] * 3),
    "a policy that rejects": (
        None,
        None,
        [None, ASKS.format(1, "reject"), None],
        [ADDED, ("rejected", "available"), ADDED],
    ),
    "policies that ignore": (
        None,
        None,
        [ASKS.format(which, "ignore") for which in (1, 2, 2)],
        [("deduplicated", "available"), ADDED, ("deduplicated", "available")],
    ),
    "keys and policies": (
        ["k", None, "x"],
        None,
        [None, ASKS.format(1, "replace"), None],
        [("added", "active"), ("added", "available"), ADDED],
    ),
}


async def answer(sql: Session, call: str, *columns: object) -> Any:
    """Make a call and roll back. Returns its answer, with ids in the order of their jobs."""
    transaction = sql.connection.transaction()
    await transaction.start()
    await sql.execute("select setval('asyncq._jobs_id_seq', max(id)) from asyncq._jobs")
    said = json.loads(await sql.value(call, ["a", "b", "a"], *columns))
    await transaction.rollback()
    return said


@pytest.mark.parametrize("case", CASES)
async def test_one_row_has_the_values_of_the_rows(sql: Session, case: str) -> None:
    """A job that was simply added has only its id there."""
    *columns, expected = CASES[case]
    await sql.execute("select asyncq.add_job('t', job_key => 'k'), asyncq.add_job('t')")
    await sql.execute(f"update asyncq._jobs set {STATES['active']} where key = 'k'")
    await sql.execute(f"update asyncq._jobs set unique_key = decode('{1:064d}', 'hex') where key is null")
    row = await answer(sql, ONE_ROW, *columns)
    rows = await answer(sql, ROWS, *columns)
    names = ("outcomes", "existing_ids", "existing_states")
    special = dict(zip(row["ords"] or [], zip(*(row[name] or [] for name in names), strict=True), strict=True))

    assert rows == [
        [ord_, outcome, id_, *existing]
        for ord_, id_ in enumerate(row["ids"], 1)
        for outcome, *existing in [special.get(ord_, ("added", None, None))]
    ]
    assert expected == [(outcome, state) for _, outcome, _, _, state in rows]
    assert [ord_ for ord_, said in enumerate(expected, 1) if said != ADDED] == (row["ords"] or [])


async def test_no_specs_no_ids(sql: Session) -> None:
    """Neither an empty array nor null is an error."""
    nothing = dict.fromkeys(("ids", "ords", "outcomes", "existing_ids", "existing_states"))
    calls = [f"select to_jsonb(added) from asyncq._add_many_jobs({jobs}) as added" for jobs in ("'{}'", "null")]

    assert [nothing, nothing] == [json.loads(await sql.value(call)) for call in calls]


async def test_a_record_that_asks_nothing_reaches_the_row_of_a_new_job_and_of_one_that_is_changed(sql: Session) -> None:
    """An option that is no question about other jobs must not be lost on the way of job keys."""
    keeps = '{"states": ["completed"]}'
    for keys in (["a", "b"], ["a", "c"], ["d", "d"], [None, None]):
        await sql.rows(ONE_ROW, ["t", "t"], keys, None, [keeps, None])
    rows = await sql.rows("select key, keep_states from asyncq._jobs order by id")

    kept = ["completed"]
    assert [("a", kept), ("b", None), ("c", None), ("d", kept), (None, kept), (None, None)] == list(map(tuple, rows))

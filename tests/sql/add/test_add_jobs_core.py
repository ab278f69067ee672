"""`_add_jobs`: a row for each job; what SQL's own functions call."""

import json

import pytest

from tests.support.session import Session

CALL = """
select * from asyncq._add_jobs(array(
  select asyncq._new_job(name, null, null, null, null) from unnest($1::text[]) with ordinality as given(name, ord)
  order by ord))
"""
FULL = """
select * from asyncq._add_jobs(array[asyncq._new_job(
  't', '{"p": 1}', 'q', '2040-01-01 00:00:00+00', '{"meta": {"m": 1}}', 3, null, -7, '{"f": true}', null)])
"""


async def test_each_spec_has_one_row_of_the_answer(sql: Session) -> None:
    """The client pairs answers and specs by their order."""
    rows = [dict(row) for row in await sql.rows(CALL, ["b", "a", "b"])]
    nothing = {"outcome": "added", "existing_id": None, "existing_state": None}
    ids = [row["id"] for row in rows]

    assert [{"ord": ord_, "id": id_, **nothing} for ord_, id_ in enumerate(ids, 1)] == rows
    assert ["b", "a", "b"] == await sql.values("select task_identifier from asyncq.jobs order by id")
    assert sorted(ids) == ids


async def test_no_specs_no_rows(sql: Session) -> None:
    """Neither an empty array nor null is an error."""
    assert [] == await sql.rows(CALL, [])
    assert [] == await sql.rows("select * from asyncq._add_jobs(null)")


async def test_every_attribute_ends_in_its_column(sql: Session) -> None:
    """Two that change places are soon written."""
    await sql.rows(FULL)
    stored = await sql.row("""
        select task.identifier, job.payload::text, job.queue, job.run_at, job.max_attempts, job.key, job.priority,
          job.flags, job.meta
        from asyncq._jobs as job, asyncq._tasks as task where task.id = job.task_id""")

    assert ("t", '{"p": 1}', "q", 3, None, -7) == (*stored[:3], *stored[4:7])
    assert "2040-01-01T00:00:00+00:00" == stored["run_at"].isoformat()
    assert ({"f": True}, {"m": 1}) == (json.loads(stored["flags"]), json.loads(stored["meta"]))


async def test_the_members_of_a_call_become_due_at_one_time(sql: Session) -> None:
    """run_at is the start of the transaction, so that the order among them is that of their ids."""
    await sql.rows(CALL, ["a", "b"])
    await sql.rows(CALL, ["c"])

    assert [True] * 3 == await sql.values("select run_at = now() from asyncq._jobs")


async def test_a_spec_is_refused_rather_than_lost(sql: Session) -> None:
    """Should a name vanish between the two statements (nothing removes one today), the caller hears of it."""
    await sql.execute("""
        create or replace function asyncq._store_tasks(identifiers text[]) returns void
        language plpgsql as $$ begin end $$""")

    assert "40001" == (await sql.refusal(CALL, ["t"])).sqlstate


BARE = """
select * from asyncq._add_jobs(array(
  select asyncq._new_job('t', null, null, null, extra::jsonb, job_key => key)
  from unnest($1::text[], $2::text[]) with ordinality as given(key, extra, ord) order by ord))
"""
ASKS = r'{"unique_key": "\\x%064d", "on_conflict": "ignore"}'
CASES: dict[str, tuple[list[str | None] | None, list[str | None] | None, list[str]]] = {
    "nothing": ([None, None], None, ["added", "added"]),
    "one key": (["k", None], None, ["updated", "added"]),
    "doubled keys": (["k", "k"], None, ["updated", "updated"]),
    "one policy": (None, [None, ASKS % 1], ["added", "deduplicated"]),
    "doubled policies": (None, [ASKS % 2, ASKS % 2], ["added", "deduplicated"]),
    "requests": (None, ['{"idempotency_key": "r", "window_s": 60}'] * 2, ["added", "deduplicated"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_a_job_does_not_say_is_the_default(sql: Session, case: str) -> None:
    """On every way through the act."""
    keys, extras, outcomes = CASES[case]
    await sql.rows(BARE, ["k", None], [None, ASKS % 1])
    before = await sql.values("select id from asyncq._jobs")
    rows = await sql.rows(BARE, keys, extras)

    assert [1, 2] == sorted(row["ord"] for row in rows)
    assert outcomes == [row["outcome"] for row in sorted(rows, key=lambda row: row["ord"])]
    assert [(25, 0, "{}")] * (len(before) + outcomes.count("added")) == [
        tuple(row) for row in await sql.rows("select max_attempts, priority, payload::text from asyncq._jobs")
    ]


async def test_a_call_with_many_tasks_gives_each_job_its_own(sql: Session) -> None:
    """Whether its name was known, is new, or is that of the job before it."""
    await sql.execute("select asyncq._store_tasks('{t3,t1}')")
    names = [f"t{i * 7 % 5}" for i in range(50)]
    await sql.rows(CALL, names)

    assert names == await sql.values("select task_identifier from asyncq.jobs order by id")

"""`_add_jobs`: the one way in, on parallel arrays; what the Python client calls."""

import json

import pytest

from tests.support.session import Session

CALL = """
select * from asyncq._add_jobs(
  identifiers := $1::text[], payloads := $2::text[]::json[], queue_names := $3::text[],
  run_ats := $4::text[]::timestamptz[], max_attempts := $5::int[], job_keys := $6::text[], priorities := $7::int[],
  flags := $8::text[]::jsonb[], job_key_modes := $9::text[], metas := $10::text[]::jsonb[])
"""


def arrays(*names: str) -> list[list[str | None]]:
    """The arguments for jobs of which only the names are given."""
    return [list(names), *([None] * len(names) for _ in range(9))]


async def test_each_spec_has_one_row_of_the_answer(sql: Session) -> None:
    """The client pairs answers and specs by their order."""
    rows = [dict(row) for row in await sql.rows(CALL, *arrays("b", "a", "b"))]
    nothing = {"outcome": "added", "existing_id": None, "existing_state": None}
    ids = [row["id"] for row in rows]

    assert [{"ord": ord_, "id": id_, **nothing} for ord_, id_ in enumerate(ids, 1)] == rows
    assert ["b", "a", "b"] == await sql.values("select task_identifier from asyncq.jobs order by id")
    assert sorted(ids) == ids


async def test_no_specs_no_rows(sql: Session) -> None:
    """Neither empty arrays nor nulls are an error."""
    assert [] == await sql.rows(CALL, *arrays())
    assert [] == await sql.rows(CALL, *[None] * 10)


async def test_every_array_ends_in_its_column(sql: Session) -> None:
    """Ten arrays side by side: two that change places are soon written."""
    specs = [
        ["t"],
        ['{"p": 1}'],
        ["q"],
        ["2040-01-01T00:00:00+00:00"],
        [3],
        [None],
        [-7],
        ['{"f": true}'],
        [None],
        ['{"m": 1}'],
    ]
    await sql.rows(CALL, *specs)
    stored = await sql.row("""
        select task.identifier, job.payload::text, job.queue, job.run_at, job.max_attempts, job.key, job.priority,
          job.flags, job.meta
        from asyncq._jobs as job, asyncq._tasks as task where task.id = job.task_id""")

    assert ("t", '{"p": 1}', "q", 3, None, -7) == (*stored[:3], *stored[4:7])
    assert "2040-01-01T00:00:00+00:00" == stored["run_at"].isoformat()
    assert ({"f": True}, {"m": 1}) == (json.loads(stored["flags"]), json.loads(stored["meta"]))


async def test_the_members_of_a_call_become_due_at_one_time(sql: Session) -> None:
    """run_at is the start of the transaction, so that the order among them is that of their ids."""
    await sql.rows(CALL, *arrays("a", "b"))
    await sql.rows(CALL, *arrays("c"))

    assert [True] * 3 == await sql.values("select run_at = now() from asyncq._jobs")


async def test_a_spec_is_refused_rather_than_lost(sql: Session) -> None:
    """Should a name vanish between the two statements (nothing removes one today), the caller hears of it."""
    await sql.execute("""
        create or replace function asyncq._store_tasks(identifiers text[]) returns void
        language plpgsql as $$ begin end $$""")

    assert "40001" == (await sql.refusal(CALL, *arrays("t"))).sqlstate


BARE = """
select * from asyncq._add_jobs(
  identifiers := '{t,t}', payloads := null, queue_names := null, run_ats := null, max_attempts := null, job_keys := $1,
  priorities := null, flags := null, job_key_modes := null, metas := null, extras := $2::text[]::jsonb[])
"""
ASKS = '{"key": "%064d", "on_conflict": "ignore"}'
CASES: dict[str, tuple[list[str | None] | None, list[str | None] | None, list[str]]] = {
    "nothing": (None, None, ["added", "added"]),
    "one key": (["k", None], None, ["updated", "added"]),
    "doubled keys": (["k", "k"], None, ["updated", "updated"]),
    "one policy": (None, [None, ASKS % 1], ["added", "deduplicated"]),
    "doubled policies": (None, [ASKS % 2, ASKS % 2], ["added", "deduplicated"]),
    "requests": (None, ['{"request": "r", "window_s": 60}'] * 2, ["added", "deduplicated"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_no_job_of_a_call_says_is_null_as_a_whole(sql: Session, case: str) -> None:
    """On every way through the act, as if it were an array of nulls."""
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
    await sql.rows(CALL, *arrays(*names))

    assert names == await sql.values("select task_identifier from asyncq.jobs order by id")

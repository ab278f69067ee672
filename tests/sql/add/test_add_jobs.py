"""`add_jobs` and `_add_jobs`: many jobs in one call, in the order of their specs."""

import json

import pytest

from tests.support.session import Session

SIX = [("c", "z"), ("a", None), ("b", "y"), ("a", "z"), ("c", None), ("b", "x"), ("a", "y")]


def array_of(*specs: str) -> str:
    """The SQL text of an array of job_spec."""
    return f"array[{', '.join(specs)}]::asyncq.job_spec[]"


def spec(task: str, queue: str | None = None) -> str:
    """The SQL text of a spec."""
    queue_name = "null" if queue is None else f"'{queue}'"
    return f"('{task}', null, {queue_name}, null, null, null, null, null, null, null)"


@pytest.mark.parametrize("analysed", [False, True])
async def test_add_jobs_keeps_the_order_of_its_specs(own: Session, analysed: bool) -> None:
    """Equal jobs run by id: an order that follows the planner's join would run them in any order."""
    if analysed:
        await own.execute("""
            select asyncq.add_job('a', queue_name := 'x'), asyncq.add_job('b', queue_name := 'y');
            analyze asyncq._tasks""")
    rows = await own.rows(f"select * from asyncq.add_jobs({array_of(*(spec(*pair) for pair in SIX))})")
    ids = [row["id"] for row in rows]

    assert SIX == [(row["task_identifier"], row["queue_name"]) for row in rows]
    assert sorted(ids) == ids


async def test_add_jobs_returns_the_rows_of_the_view(sql: Session) -> None:
    """The same row that `add_job` returns."""
    rows = await sql.rows(f"select * from asyncq.add_jobs({array_of(spec('a', 'q'), spec('b'))})")

    assert [dict(row) for row in await sql.rows("select * from asyncq.jobs order by id")] == [dict(row) for row in rows]


async def test_add_jobs_takes_every_attribute_of_a_spec(sql: Session) -> None:
    """Each has an effect, in the order of add_job's arguments."""
    full = (
        """('t', '{"a":1}', 'q', '2040-01-01 00:00:00+00', 3, 'k', -1, '{f}', 'unsafe_dedupe', '{"meta": {"m": 1}}')"""
    )
    row = await sql.row(f"select * from asyncq.add_jobs({array_of(full)})")

    assert ("t", "q", 3, -1) == (row["task_identifier"], row["queue_name"], row["max_attempts"], row["priority"])
    assert ("2040-01-01T00:00:00+00:00", {"f": True}) == (row["run_at"].isoformat(), json.loads(row["flags"]))
    assert ('{"a":1}', "k", '{"m": 1}') == tuple(
        await sql.row("select payload::text, key, meta::text from asyncq._jobs")
    )
    assert [0, 1] == [
        await sql.value(f"select revision from asyncq.add_jobs({array_of(full)})") - 1,
        await sql.value("select count(*) from asyncq._jobs"),
    ]


async def test_a_spec_of_nulls_takes_the_defaults(sql: Session) -> None:
    """add_job does the same."""
    await sql.rows(f"select asyncq.add_jobs({array_of(spec('t'))})")
    stored = await sql.row(
        "select payload::text, run_at = now() as due, max_attempts, priority, flags from asyncq._jobs"
    )

    assert ("{}", True, 25, 0, None) == tuple(stored)


@pytest.mark.parametrize("specs", ["'{}'::asyncq.job_spec[]", "null"])
async def test_add_jobs_without_specs_adds_nothing(sql: Session, specs: str) -> None:
    """`array_agg` over no rows gives null: no error for the caller."""
    assert [] == await sql.rows(f"select * from asyncq.add_jobs({specs})")


async def test_a_spec_that_is_null_is_refused(sql: Session) -> None:
    """It has no identifier."""
    error = await sql.refusal(f"select asyncq.add_jobs({array_of(spec('t'), 'null')})")

    assert ("GWBID", "identifier", "Job 2 of 2.") == (error.sqlstate, error.column_name, error.detail)


async def test_one_bad_spec_refuses_all(sql: Session) -> None:
    """All are added or none, so the caller need not search for the added half."""
    long = "x" * 129
    error = await sql.refusal(f"select asyncq.add_jobs({array_of(spec('t'), spec(long))})")

    assert ("GWBID", "Job 2 of 2.") == (error.sqlstate, error.detail)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_equal_specs_are_jobs_of_their_own(sql: Session) -> None:
    """Without a key nothing is deduplicated."""
    rows = await sql.rows(f"select * from asyncq.add_jobs({array_of(spec('t'), spec('t'))})")

    assert 2 == len({row["id"] for row in rows})


@pytest.mark.parametrize(("preserve", "year"), [("false", 2041), ("true", 2040), ("null", 2041)])
async def test_one_flag_decides_for_all_specs_whether_times_are_kept(sql: Session, preserve: str, year: int) -> None:
    """graphile-worker's second argument; jobs whose attempts have begun get the new time in any case."""
    await sql.execute("""
        select asyncq.add_job('t', run_at := '2040-01-01 00:00:00+00', job_key := 'k' || i)
          from generate_series(1, 3) as i;
        update asyncq._jobs set attempts = 1 where key = 'k3'""")
    keyed = [f"('t', null, null, '2041-01-01 00:00:00+00', null, 'k{i}', null, null, null, null)" for i in range(1, 5)]
    rows = await sql.rows(f"select * from asyncq.add_jobs({array_of(*keyed)}, job_key_preserve_run_at := {preserve})")

    assert [year, year, 2041, 2041] == [row["run_at"].year for row in rows]
    assert ["k1", "k2", "k3", "k4"] == [row["key"] for row in rows]
    assert [1, 1, 1, 0] == [row["revision"] for row in rows]


async def test_a_null_flag_in_a_spec_is_refused(sql: Session) -> None:
    """add_job refuses it too."""
    bad = "('t', null, null, null, null, null, null, array[null], null, null)"
    error = await sql.refusal(f"select asyncq.add_jobs({array_of(bad)})")

    assert ("22023", "flags") == (error.sqlstate, error.column_name)


async def test_add_jobs_adds_a_thousand_jobs_of_a_hundred_queues_in_order(sql: Session) -> None:
    """The plan for few rows must not be the only one that keeps the order."""
    rows = await sql.rows("""
        select task_identifier || ':' || queue_name as name from asyncq.add_jobs((
          select array_agg(
            ('t' || i % 7, null, 'q' || i % 101, null, null, null, null, null, null, null)::asyncq.job_spec order by i)
          from generate_series(1, 1000) as i))""")

    assert [f"t{i % 7}:q{i % 101}" for i in range(1, 1001)] == [row["name"] for row in rows]


async def test_add_jobs_works_in_a_statement_trigger(sql: Session) -> None:
    """The way to add a job for each of many rows at the price of one call."""
    await sql.execute("""
        create table asyncq.orders (id int);
        create function asyncq.ordered() returns trigger language plpgsql as $$
        begin
          perform asyncq.add_jobs((
            select array_agg(
              ('ship', json_build_object('id', id), null, null, null, null, null, null, null, null)::asyncq.job_spec
              order by id)
            from added));
          return null;
        end $$;
        create trigger ordered after insert on asyncq.orders referencing new table as added
          for each statement execute function asyncq.ordered();
        insert into asyncq.orders select generate_series(1, 3);""")

    assert ['{"id" : 1}', '{"id" : 2}', '{"id" : 3}'] == await sql.values(
        "select payload::text from asyncq._jobs order by id"
    )


def full(**arguments: object) -> str:
    """The SQL text of a spec, by the names of its attributes."""
    return f"json_populate_record(null::asyncq.job_spec, '{json.dumps({'identifier': 't'} | arguments)}')"


async def test_a_spec_has_every_option_of_add_job(sql: Session) -> None:
    """A request that is made again, and a singleton that exists, give the row of the job that is there."""
    requests = [full(options={"idempotency_key": "r", "meta": {"n": 1}})] * 2
    specs = [*requests, *[full(options={"singleton": True, "subject": s}) for s in "aab"]]
    ids = [row["id"] for row in await sql.rows(f"select id from asyncq.add_jobs({array_of(*specs)})")]

    assert [0, 0, 1, 1, 2] == [sorted(set(ids)).index(id_) for id_ in ids]
    assert ['{"n": 1}', None, None] == await sql.values("select meta::text from asyncq._jobs order by id")


async def test_a_spec_has_a_mode_of_its_own(sql: Session) -> None:
    """The flag of the call is for those that have none."""
    await sql.execute("select asyncq.add_job('t', run_at := '2040-01-01 00:00:00+00', job_key := 'k' || i) from"
        " generate_series(1, 3) as i")  # fmt: skip
    later = {"run_at": "2041-01-01T00:00:00Z"}
    modes = zip(("k1", "k2", "k3"), ("replace", "unsafe_dedupe", None), strict=True)
    specs = [full(job_key=key, job_key_mode=mode, **later) for key, mode in modes]
    rows = await sql.rows(f"select * from asyncq.add_jobs({array_of(*specs)}, true)")

    assert [2041, 2040, 2040] == [row["run_at"].year for row in rows]


async def test_a_spec_that_its_policy_rejects_is_an_error(sql: Session) -> None:
    """A returned row would be that of another request. add_job raises the same error."""
    await sql.execute("select asyncq.add_job('t')")
    first = await sql.value(f"select id from asyncq.add_jobs({array_of(full(options={'unique': {}}))})")
    call = f"select asyncq.add_jobs({array_of(full(), full(options={'unique': {}}))})"
    error = await sql.refusal(call)

    assert ("GWBDJ", "unique") == (error.sqlstate, error.column_name)
    assert {"id": first, "state": "available"} == json.loads(error.detail)
    assert 2 == await sql.value("select count(*) from asyncq._jobs")


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
    """If a name is removed between the two statements, the caller gets an error. Nothing removes one today."""
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
async def test_fields_that_a_job_leaves_out_have_their_defaults(sql: Session, case: str) -> None:
    """This holds for every way in which a job is stored."""
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
    """Its name may be known, new, or that of the job before it."""
    await sql.execute("select asyncq._store_tasks('{t3,t1}')")
    names = [f"t{i * 7 % 5}" for i in range(50)]
    await sql.rows(CALL, names)

    assert names == await sql.values("select task_identifier from asyncq.jobs order by id")

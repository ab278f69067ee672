"""`add_job`: one job, by hand, from a trigger or from any language."""

import json

import pytest

from tests.support.session import Session
from tests.support.twins import HOSTILE

STORED = """
select run_at = now() as due, created_at = now() as new, updated_at = now() as touched, queue, locked_by, locked_at,
  lock_token, revision, priority, attempts, max_attempts, interruptions, key, flags, payload::text, meta, last_error
from asyncq._jobs
"""
DEFAULTS = {
    "due": True,
    "new": True,
    "touched": True,
    "queue": None,
    "locked_by": None,
    "locked_at": None,
    "lock_token": None,
    "revision": 0,
    "priority": 0,
    "attempts": 0,
    "max_attempts": 25,
    "interruptions": 0,
    "key": None,
    "flags": None,
    "payload": "{}",
    "meta": None,
    "last_error": None,
}


async def test_add_job_with_a_name_alone_takes_every_default(sql: Session) -> None:
    """Most jobs are added like this."""
    await sql.execute("select asyncq.add_job('t')")

    assert DEFAULTS == dict(await sql.row(STORED))


async def test_add_job_takes_null_for_every_default(sql: Session) -> None:
    """Some drivers bind all parameters, and send null for arguments that are left out."""
    await sql.execute("select asyncq.add_job('t', null, null, null, null, null, null, null, null, null)")

    assert DEFAULTS == dict(await sql.row(STORED))


async def test_add_job_takes_graphiles_arguments_in_graphiles_order(sql: Session) -> None:
    """Users of graphile-worker keep their calls, the positional ones too."""
    added = await sql.row("""
        select * from asyncq.add_job('t', '{"a":1}', 'q', '2040-01-02 03:04:05+00', 7, null, -3, '{f,g}', 'replace')""")
    columns = ("queue_name", "task_identifier", "priority", "max_attempts", "key", "flags")

    assert ("q", "t", -3, 7, None) == tuple(added[name] for name in columns[:-1])
    assert {"f": True, "g": True} == json.loads(added["flags"])
    assert "2040-01-02T03:04:05+00:00" == added["run_at"].isoformat()
    assert ['{"a":1}'] == await sql.values("select payload::text from asyncq._jobs")


async def test_add_job_returns_the_row_of_the_view(sql: Session) -> None:
    """SQL callers read the id and other columns from it."""
    added = await sql.row("select * from asyncq.add_job('t', queue_name := 'q', flags := '{f}')")

    assert dict(await sql.row("select * from asyncq.jobs")) == dict(added)


async def test_add_job_keeps_the_payload_as_it_was_written(sql: Session) -> None:
    """json, not jsonb: large numbers, the order of members and doubled ones are the caller's business."""
    text = '{"b": 1.0, "a": 1e2, "a":  123456789012345678901234567890}'
    await sql.rows("select asyncq.add_job('t', $1::text::json)", text)

    assert text == await sql.value("select payload::text from asyncq._jobs")


async def test_the_payload_null_is_no_missing_payload(sql: Session) -> None:
    """JSON's null is a value; a missing payload is an empty object."""
    await sql.execute("select asyncq.add_job('t', 'null')")

    assert "null" == await sql.value("select payload::text from asyncq._jobs")


async def test_add_job_with_meta_stores_it(sql: Session) -> None:
    """Trace ids, for example, are stored beside the payload."""
    await sql.execute("""select asyncq.add_job('t', options := '{"meta": {"trace": "x"}}')""")

    assert {"trace": "x"} == json.loads(await sql.value("select meta::text from asyncq._jobs"))


@pytest.mark.parametrize("name", ["", "a/b/c", "ünï", "x" * 128, " "])
async def test_add_job_takes_any_identifier_of_up_to_128_characters(sql: Session, name: str) -> None:
    """Characters are counted, not bytes; even the empty name is one."""
    assert name == await sql.value("select task_identifier from asyncq.add_job($1)", name)
    assert name == await sql.value("select queue_name from asyncq.add_job('t', queue_name := $1)", name)


async def test_a_task_is_stored_once_and_a_queue_not_at_all(sql: Session) -> None:
    """A job holds the number of its task, and the name of its queue. Its partition is stored by the first claim."""
    await sql.execute("select asyncq.add_job('t', queue_name := 'q') from generate_series(1, 3)")

    assert (1, 0) == tuple(
        await sql.row("select (select count(*) from asyncq._tasks), (select count(*) from asyncq._partitions)")
    )


async def test_a_refused_add_leaves_no_names(sql: Session) -> None:
    """A refused add stores nothing."""
    await sql.refusal("select asyncq.add_job('t', queue_name := 'q', max_attempts := 0)")

    assert (0, 0) == tuple(
        await sql.row("select (select count(*) from asyncq._tasks), (select count(*) from asyncq._partitions)")
    )


async def test_add_job_works_in_a_trigger(sql: Session) -> None:
    """A row and its job in one transaction, without a line of Python."""
    await sql.execute("""
        create table asyncq.orders (id int);
        create function asyncq.ordered() returns trigger language plpgsql as $$
        begin
          perform asyncq.add_job('ship', json_build_object('id', new.id));
          return new;
        end $$;
        create trigger ordered after insert on asyncq.orders for each row execute function asyncq.ordered();
        insert into asyncq.orders values (7), (8);""")

    assert ['{"id" : 7}', '{"id" : 8}'] == await sql.values("select payload::text from asyncq._jobs order by id")


async def test_add_job_ignores_the_callers_settings(sql: Session) -> None:
    """It runs in other programs' sessions, whose settings may change how literals, dates or names are read."""
    await sql.execute("""
        set local standard_conforming_strings = off;
        set local datestyle = 'SQL, DMY';
        set local plpgsql.variable_conflict = 'error';
        set local plpgsql.extra_errors = 'all';
        set local search_path = '';""")
    await sql.execute("""select asyncq.add_job('t', '{"path": "C:/x"}', 'q', flags := '{f}')""")
    error = await sql.refusal("select asyncq.add_job('t', $1::text::json)", '{"a": "\\u0000"}')

    assert "GWBPL" == error.sqlstate
    assert 1 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_row_that_add_job_returned_stays_readable_when_the_view_grows(sql: Session) -> None:
    """Columns are appended to the view while sessions keep their cached plans."""
    prepared = await sql.connection.prepare(f"select id from {sql.schema}.add_job('t')")
    await prepared.fetchval()
    for view in ("_shown_jobs", "jobs"):
        definition = (await sql.value(f"select pg_get_viewdef('asyncq.{view}'::regclass)")).rstrip("; \n")
        grown = definition.replace("job.flags", "job.flags, 1 as extra", 1)
        await sql.execute(f"create or replace view asyncq.{view} as {grown}")

    assert 2 == await sql.value("select count(*) from (select asyncq.add_job('t')) as a, generate_series(1, 2)")
    assert isinstance(await prepared.fetchval(), int)


# Unique jobs

REPEATED = "select * from asyncq.add_job('t', '{\"n\": 1}', options := $1::text::jsonb)"


@pytest.mark.parametrize(
    "options",
    ['{"unique": {"on_conflict": "ignore"}}', '{"singleton": true, "subject": "s"}', '{"idempotency_key": "k"}'],
)
async def test_a_dropped_add_returns_the_row_of_the_job_that_was_there(sql: Session, options: str) -> None:
    """Callers read the id from it, whichever job it is."""
    first = await sql.row(REPEATED, options)
    second = await sql.row(REPEATED, options)

    assert dict(first) == dict(second)
    assert 1 == await sql.value("select count(*) from asyncq._jobs")


async def test_a_dropped_add_whose_job_has_ended_returns_the_known_fields(sql: Session) -> None:
    """Its id, task and time of creation; no more than the id and the task when nothing is."""
    first = await sql.row(REPEATED, '{"idempotency_key": "k"}')
    await sql.rows("select asyncq._end_jobs(array[$1::bigint], 'discarded')", first["id"])
    ended = await sql.row(REPEATED, '{"idempotency_key": "k"}')
    await sql.execute("delete from asyncq._ended_jobs")
    gone = await sql.row(REPEATED, '{"idempotency_key": "k"}')
    known = {"id": first["id"], "task_identifier": "t", "created_at": first["created_at"]}

    assert known == {name: value for name, value in ended.items() if value is not None}
    assert known | {"created_at": None} == {name: gone[name] for name in known}


async def test_a_rejected_add_is_an_error_that_names_the_other_job(sql: Session) -> None:
    """SQL callers need an error code of its own. For Python the server raises nothing."""
    first = await sql.row(REPEATED, '{"unique": {}}')
    error = await sql.refusal(REPEATED, '{"unique": {}}')

    assert ("GWBDJ", "unique") == (error.sqlstate, error.column_name)
    assert {"id": first["id"], "state": "available"} == json.loads(error.detail)
    assert f"job {first['id']}, which is available, prevents another one like it" == error.message


async def test_a_replacing_add_returns_the_new_job(sql: Session) -> None:
    """The old job is deleted."""
    first = await sql.row(REPEATED, '{"unique": {"on_conflict": "replace"}}')
    second = await sql.row(REPEATED, '{"unique": {"on_conflict": "replace"}}')

    assert first["id"] < second["id"]
    assert [second["id"]] == await sql.values("select id from asyncq._jobs")


async def test_unique_adds_ignore_the_callers_settings(sql: Session) -> None:
    """They run in other programs' sessions."""
    await sql.execute(HOSTILE)
    await sql.execute("set local plpgsql.variable_conflict = 'error'; set local plpgsql.extra_errors = 'all'")
    options = """{"unique": {"keys": ["args", "queue"], "states": ["active", "available", "completed"],
      "period": "P1DT1S", "on_conflict": "replace_except_schedule"}, "idempotency_key": "k%s"}"""
    for number in range(3):
        await sql.rows(REPEATED, options % number)
    await sql.rows(REPEATED, options % 2)

    assert 1 == await sql.value("select count(*) from asyncq._jobs")

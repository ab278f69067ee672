"""`enqueue`: jobs as JSON, added with the rights of the owner; all that an enqueuer role may call."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from asyncq.domain.deduplication import DEFAULT_WINDOW
from asyncq.domain.job import JobSpec
from asyncq.store.add import document
from asyncq.store.statements import folder
from tests.support.session import Session

CALL = "select * from asyncq.enqueue($1::text::json) order by ord"
FULL = {
    "identifier": "t",
    "payload": {"p": 1},
    "queue_name": "q",
    "run_at": "2040-01-01T00:00:00+00:00",
    "max_attempts": 3,
    "job_key": "k",
    "priority": -7,
    "flags": ["f", "g", "f"],
    "job_key_mode": "preserve_run_at",
    "options": {"meta": {"m": 1}},
}
SPEC = JobSpec(
    task="t",
    payload='{"p": 1}',
    queue="q",
    run_at=datetime(2040, 1, 1, tzinfo=UTC),
    max_attempts=3,
    job_key="k",
    priority=-7,
    flags=("f", "g", "f"),
    job_key_mode="preserve_run_at",
    meta='{"m": 1}',
)

ARGUMENTS = """
select array_agg(name order by ord)
from pg_catalog.pg_proc, unnest(proargnames, coalesce(proargmodes, array_fill('i'::"char", array[pronargs])))
  with ordinality as argument(name, mode, ord)
where pronamespace = 'asyncq'::regnamespace and proname = $1 and mode in ('i', 'v')
"""


async def enqueue(sql: Session, *jobs: Any) -> list[dict[str, Any]]:
    """Add jobs; the rows of the answer."""
    return [dict(row) for row in await sql.rows(CALL, json.dumps(jobs))]


async def test_every_member_ends_in_its_column(sql: Session) -> None:
    """Ten members: two that change places are soon written."""
    await enqueue(sql, FULL)
    stored = await sql.row("""
        select task.identifier, job.payload::text, job.queue, job.run_at, job.max_attempts, job.key, job.priority,
          job.flags::text, job.meta::text
        from asyncq._jobs as job, asyncq._tasks as task
        where task.id = job.task_id""")

    assert ("t", '{"p": 1}', "q", 3, "k", -7) == (*stored[:3], *stored[4:7])
    assert "2040-01-01T00:00:00+00:00" == stored["run_at"].isoformat()
    assert ('{"f": true, "g": true}', '{"m": 1}') == (stored["flags"], stored["meta"])


async def test_each_job_has_one_row_of_the_answer_in_the_order_of_the_jobs(sql: Session) -> None:
    """The client matches answers and specs by their order, as for `_add_jobs`."""
    rows = await enqueue(sql, *({"identifier": name} for name in ("b", "a", "b")))
    nothing = {"outcome": "added", "existing_id": None, "existing_state": None}
    ids = [row["id"] for row in rows]

    assert [{"ord": ord_, "id": id_, **nothing} for ord_, id_ in enumerate(ids, 1)] == rows
    assert ["b", "a", "b"] == await sql.values("select task_identifier from asyncq.jobs order by id")
    assert sorted(ids) == ids


async def test_a_single_job_needs_no_array(sql: Session) -> None:
    """A trigger adds one at a time."""
    rows = await sql.rows("select * from asyncq.enqueue(json_build_object('identifier', 't', 'payload', null))")

    assert [(1, "added")] == [tuple(row)[:2] for row in rows]


async def test_no_jobs_no_rows(sql: Session) -> None:
    """An empty list is no error."""
    assert [] == await enqueue(sql)


async def test_members_that_are_missing_or_null_have_their_defaults(sql: Session) -> None:
    """add_job has the same defaults."""
    await enqueue(sql, {"identifier": "t"}, {**dict.fromkeys(FULL), "identifier": "t", "payload": {}})
    rows = await sql.values("""
        select row(payload::text, queue, run_at = asyncq.now(), max_attempts, key, priority, flags, meta)::text
        from asyncq._jobs""")

    assert ["({},,t,25,,0,,)"] * 2 == rows


async def test_a_payload_is_kept_as_it_is_written(sql: Session) -> None:
    """Every digit and blank of it; and null is a payload like another."""
    payloads = ['{"n": 1.10, "n": 12345678901234567890 }', "null", '"text\\u00e9"', "[1,  2]", "false"]
    jobs = ",".join(f'{{"identifier": "t", "payload": {payload}}}' for payload in payloads)
    await sql.rows(CALL, f"[{jobs}]")

    assert payloads == await sql.values("select payload::text from asyncq._jobs order by id")


async def test_a_unique_policy_is_applied(sql: Session) -> None:
    """The job's queue and payload count. A rejection is an answer here, not an error."""
    policy = {"keys": ["queue", "args"], "on_conflict": "reject"}
    first, other, rejected, once, again = await enqueue(
        sql,
        {"identifier": "t", "queue_name": "q", "payload": {"n": 1.0}, "options": {"unique": policy}},
        {"identifier": "t", "payload": {"n": 1}, "options": {"unique": policy}},
        {"identifier": "t", "queue_name": "q", "payload": {"n": 1}, "options": {"unique": policy}},
        {"identifier": "t", "options": {"idempotency_key": "k", "idempotency_window_s": 60}},
        {"identifier": "t", "options": {"idempotency_key": "k"}},
    )

    assert ["added", "added", "rejected"] == [row["outcome"] for row in (first, other, rejected)]
    assert (first["id"], "available") == (rejected["existing_id"], rejected["existing_state"])
    assert ("deduplicated", once["id"]) == (again["outcome"], again["id"])


async def test_the_answer_for_an_existing_job_has_only_its_id_and_state(sql: Session) -> None:
    """An enqueuer must not read by adding; add_job returns the row, with its last error."""
    job_id = await sql.value("select id from asyncq.add_job('t', job_key := 'k')")
    await sql.execute("update asyncq._jobs set last_error = 'secret', payload = '[1]'")
    seen = {"ord": 1, "id": job_id, "existing_id": job_id, "existing_state": "available"}
    held = {"identifier": "t", "job_key": "k", "job_key_mode": "unsafe_dedupe"}

    assert [{**seen, "outcome": "deduplicated"}] == await enqueue(sql, held)
    assert [{**seen, "outcome": "updated"}] == await enqueue(sql, {"identifier": "t", "job_key": "k"})


BROKEN = [
    ({"identifier": "t" * 129}, "GWBID", "identifier"),
    ({}, "GWBID", "identifier"),
    ({"identifier": "t", "queue_name": "default"}, "GWBQN", "queue_name"),
    ({"identifier": "t", "job_key": ""}, "GWBJK", "job_key"),
    ({"identifier": "t", "job_key_mode": "maybe"}, "GWBKM", "job_key_mode"),
    ({"identifier": "t", "max_attempts": 0}, "GWBMA", "max_attempts"),
    ({"identifier": "t", "payload": "\0"}, "GWBPL", "payload"),
    ({"identifier": "t", "flags": [None]}, "22023", "flags"),
    ({"identifier": "t", "options": {"bogus": 1}}, "22023", "options"),
    ({"identifier": "t", "options": {"force": True}}, "GWBUP", "force"),
    ({"identifier": "t", "job_key": "k", "options": {"unique": {}}}, "GWBUP", "job_key"),
    ({"identifier": "t", "options": {"unique": {"args_keys": ["a"]}}}, "GWBUP", "unique.args_keys"),
    ({"identifier": "t", "options": {"idempotency_key": ""}}, "GWBIK", "idempotency_key"),
]


@pytest.mark.parametrize(("job", "code", "field"), BROKEN)
async def test_the_rules_are_those_of_add_job(sql: Session, job: dict[str, Any], code: str, field: str) -> None:
    """The codes are the same, and no job of the call is added."""
    error = await sql.refusal(CALL, json.dumps([{"identifier": "t"}, job]))

    assert (code, field) == (error.sqlstate, error.column_name)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


async def test_the_members_are_the_arguments_of_add_job(sql: Session) -> None:
    """A new argument of one is a new member of the other, here and in what the client sends."""
    arguments = await sql.value(ARGUMENTS, "add_job")
    taken = {name: await sql.rows(CALL, json.dumps({"identifier": "t", name: FULL[name]})) for name in arguments}

    sent = json.loads(msgspec.json.encode(document(SPEC, DEFAULT_WINDOW)))
    assert (arguments, FULL) == (list(sent), sent)
    assert [1] * len(arguments) == [len(rows) for rows in taken.values()]


async def test_every_argument_of_a_new_job_is_given(sql: Session) -> None:
    """One that has a default could be forgotten without an error."""
    text = (folder() / "functions" / "add" / "enqueue.sql").read_text("utf-8")
    (call,) = re.findall(r"asyncq\._new_job\((.*?)\)\n", text, re.DOTALL)
    given = re.findall(
        r"(?:spec\.|')(\w+)'?\)?,?", re.sub(r"asyncq\._extra\(.*?\)", "spec.extra", call, flags=re.DOTALL)
    )

    assert await sql.value(ARGUMENTS, "_new_job") == [name for name in given if name != "job"]

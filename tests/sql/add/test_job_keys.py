"""An add with a job key changes the job that has the key: the case table, row by row.

Source: graphile-worker's job_key and job_key_mode, as its SQL behaves; where that loses a request, ours does not.
"""

import json
from datetime import datetime
from typing import Any

import pytest

from tests.support.jobs import complete, fetch, locked_queues
from tests.support.keyed import (
    DEFAULTS,
    KEY,
    MODES,
    SPENT,
    WAITING,
    WRITING,
    Done,
    Spec,
    add_all,
    add_one,
    hold,
    names,
    stored,
)
from tests.support.session import Session

GIVEN: dict[str, Any] = {
    "task": "new",
    "payload": '{"new":  1}',
    "queue": "new",
    "max_attempts": 9,
    "priority": -2,
    "flags": '{"new": true}',
    "meta": '{"new": 1}',
}
LATER = "2040-01-02T03:04:05+00:00"


async def moment(sql: Session) -> Any:
    """The start of the test's transaction."""
    return await sql.value("select now()")


@pytest.mark.parametrize("mode", [*MODES, None])
async def test_a_key_that_no_job_has_is_added(sql: Session, mode: str | None) -> None:
    """In every mode the job gets the key, and is otherwise a usual job."""
    done = await add_one(sql, mode=mode)
    now = await moment(sql)

    assert Done("added", done.id) == done
    assert {done.id: {**DEFAULTS, "id": done.id, "run_at": now, "created_at": now, "updated_at": now}} == await stored(
        sql
    )


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("state", [*WAITING, "retryable"])
async def test_an_add_replaces_every_field_of_a_job_that_waits(sql: Session, state: str, mode: str) -> None:
    """The job keeps its id, gets the new request's values, and has no failures any more."""
    old = await hold(sql, state)
    done = await add_one(sql, **GIVEN, run_at=LATER, mode=mode)
    (row,) = (await stored(sql)).values()
    kept = {name: old[name] for name in ("id", "created_at")}
    fresh = {**DEFAULTS, **GIVEN, **kept, "revision": 5, "updated_at": await moment(sql)}

    assert Done("updated", old["id"], old["id"], state) == done
    assert fresh == {name: value for name, value in row.items() if name != "run_at"}


@pytest.mark.parametrize("mode", [*WRITING, None])
@pytest.mark.parametrize("state", [*WAITING, "retryable"])
async def test_fields_that_an_add_leaves_out_return_to_their_defaults(
    sql: Session, state: str, mode: str | None
) -> None:
    """This includes queue, flags and payload: the job has only the values of the last request."""
    old = await hold(sql, state)
    await add_one(sql, mode=mode)
    (row,) = (await stored(sql)).values()
    kept = {name: old[name] for name in ("id", "created_at")}

    assert {**DEFAULTS, **kept, "revision": 5, "updated_at": await moment(sql)} == {
        name: value for name, value in row.items() if name != "run_at"
    }


RUN_AT = {
    # state, mode -> which run_at there is after an add with one, and after an add without
    ("scheduled", "replace"): ("given", "now"),
    ("available", "replace"): ("given", "now"),
    ("retryable", "replace"): ("given", "now"),
    ("scheduled", None): ("given", "now"),
    ("scheduled", "preserve_run_at"): ("old", "old"),
    ("available", "preserve_run_at"): ("old", "old"),
    ("retryable", "preserve_run_at"): ("given", "now"),
}


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize(("state", "mode"), RUN_AT)
async def test_preserve_run_at_keeps_the_time_of_a_job_that_has_not_failed(
    sql: Session, state: str, mode: str | None, is_given: bool
) -> None:
    """After a failure run_at is the time of the retry, which nobody requested: the new request cancels the wait."""
    old = await hold(sql, state)
    await add_one(sql, mode=mode, run_at=LATER if is_given else None)
    (row,) = (await stored(sql)).values()
    times = {"given": datetime.fromisoformat(LATER), "old": old["run_at"], "now": await moment(sql)}

    assert times[RUN_AT[state, mode][0 if is_given else 1]] == row["run_at"]


async def test_preserve_run_at_checks_the_attempts_and_not_the_error(sql: Session) -> None:
    """A job whose attempts were reset to 0 waits for a time that an administrator chose."""
    old = await hold(sql, "retryable")
    await sql.execute("update asyncq._jobs set attempts = 0")
    await add_one(sql, mode="preserve_run_at", run_at=LATER)
    (row,) = (await stored(sql)).values()

    assert (old["run_at"], None) == (row["run_at"], row["last_error"])


@pytest.mark.parametrize("state", [*WAITING, "retryable", *SPENT])
async def test_unsafe_dedupe_counts_the_request_and_changes_nothing_else(sql: Session, state: str) -> None:
    """This includes running and discarded jobs, so it is called unsafe."""
    old = await hold(sql, state)
    done = await add_one(sql, **GIVEN, run_at=LATER, mode="unsafe_dedupe")

    assert Done("deduplicated", old["id"], old["id"], state) == done
    assert {old["id"]: {**old, "revision": 5, "updated_at": await moment(sql)}} == await stored(sql)


async def test_unsafe_dedupe_stores_no_name_of_a_refused_add(sql: Session) -> None:
    """graphile-worker stores them: names of jobs that never were."""
    await hold(sql, "scheduled")
    await add_one(sql, task="refused", queue="refused", mode="unsafe_dedupe")
    await add_all(sql, [Spec("refused", queue="refused", mode="unsafe_dedupe"), Spec("t", key="other", queue="q")])

    assert ["old", "t"] == await names(sql)


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("state", SPENT)
async def test_a_job_that_runs_or_is_discarded_gives_its_key_to_a_new_job(sql: Session, state: str, mode: str) -> None:
    """The new request is run in any case; the old job ends as it will, and is not tried again."""
    old = await hold(sql, state)
    done = await add_one(sql, **GIVEN, run_at=LATER, mode=mode)
    rows = await stored(sql)
    now = await moment(sql)
    lost = {"key": None, "attempts": 7 if state == "discarded" else 6, "updated_at": now}
    fresh = {**DEFAULTS, **GIVEN, "id": done.id, "created_at": now, "updated_at": now}

    assert Done("added", done.id, old["id"], state) == done
    assert {**old, **lost} == rows[old["id"]]
    assert fresh == {name: value for name, value in rows[done.id].items() if name != "run_at"}
    assert LATER == rows[done.id]["run_at"].isoformat()


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("state", SPENT)
async def test_the_array_of_a_job_that_runs_or_is_discarded_is_not_merged(sql: Session, state: str, mode: str) -> None:
    """Its elements were handed out already, or are what it failed on."""
    old = await hold(sql, state, "[1]")
    done = await add_one(sql, payload="[2]", mode=mode)
    rows = await stored(sql)

    assert ("[1]", "[2]") == (rows[old["id"]]["payload"], rows[done.id]["payload"])


MERGED = [
    # old, new -> stored
    ("[1]", "[2]", "[1, 2]"),
    ("[1]", "[]", "[1]"),
    ("[]", "[1]", "[1]"),
    ("[]", "[]", "[]"),
    ("[1]", "[[2]]", "[1, [2]]"),
    ("[1]", "{}", "{}"),
    ("[1]", None, "{}"),
    ("[1]", "null", "null"),
    ("[1]", "2", "2"),
    ("[1]", '"[2]"', '"[2]"'),
    ("null", "[1]", "[1]"),
    ("{}", "[1]", "[1]"),
    ('{"a": 1}', '{"b": 1}', '{"b": 1}'),
    ("null", "null", "null"),
    ("[null]", "[null]", "[null, null]"),
    (' [{"b":1, "a":2, "a":3}]', "[1.0, 1e2]", '[{"a": 3, "b": 1}, 1.0, 100]'),
    ("[1]", '{"b":1,  "a":1e2}', '{"b":1,  "a":1e2}'),
]


@pytest.mark.parametrize("mode", WRITING)
@pytest.mark.parametrize("state", ["scheduled", "retryable"])
@pytest.mark.parametrize(("old", "new", "merged"), MERGED)
async def test_two_arrays_are_joined_and_anything_else_is_replaced(
    sql: Session, old: str, new: str | None, merged: str, state: str, mode: str
) -> None:
    """Batches are gathered like this. A joined array is stored as jsonb; a replaced payload keeps its exact text."""
    await hold(sql, state, old)
    await add_one(sql, payload=new, mode=mode)

    assert [merged] == [row["payload"] for row in (await stored(sql)).values()]


async def test_a_key_is_one_for_all_tasks(sql: Session) -> None:
    """Only the key counts, as in graphile-worker."""
    old = await add_one(sql, task="a")
    done = await add_one(sql, task="b")

    assert (old.id, "updated") == (done.id, done.outcome)
    assert ["b"] == [row["task"] for row in (await stored(sql)).values()]


async def test_the_key_of_a_job_that_ended_well_is_free(sql: Session) -> None:
    """Its row is deleted."""
    first = await add_one(sql)
    await complete(sql, await fetch(sql))
    second = await add_one(sql)

    assert Done("added", second.id) == second
    assert first.id < second.id


async def test_an_update_counts_up_the_revision_by_one(sql: Session) -> None:
    """It is 0 for a new job, and one more after each later request."""
    revisions = []
    for mode in ("replace", "preserve_run_at", "unsafe_dedupe", "replace"):
        await add_one(sql, mode=mode)
        revisions.extend(row["revision"] for row in (await stored(sql)).values())

    assert [0, 1, 2, 3] == revisions


async def test_a_job_moves_to_another_queue_while_its_old_queue_is_busy(sql: Session) -> None:
    """The lock of a queue belongs to the job that runs."""
    await sql.execute("select asyncq.add_job('t', queue_name := 'busy')")
    await fetch(sql)
    await add_one(sql, queue="busy")
    await add_one(sql, queue="free")

    assert ["busy", "free"] == [row["queue"] for row in (await stored(sql)).values()]
    assert ["busy"] == await locked_queues(sql)


async def test_a_replaced_job_runs_with_the_last_request(sql: Session) -> None:
    """The worker gets the new payload."""
    await hold(sql, "scheduled")
    await add_one(sql, payload='{"new": 1}')
    (claim,) = await fetch(sql)

    assert ('{"new": 1}', KEY, 5) == (claim["payload"], claim["key"], claim["revision"])


KEYS = [
    " ",
    "a b",
    "ünï/ключ/鍵",
    "'",
    '"',
    "\\",
    "\\u0000",
    "%_",
    "{a,b}",
    "null",
    "NULL",
    "a\nb\tc",
    "\x01",
    "e\u0301",
    "🔑" * 512,
]


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_may_hold_any_character(sql: Session, key: str) -> None:
    """Keys are often ids of users."""
    first = await add_one(sql, key=key)
    second = await add_one(sql, key=key)

    assert (first.id, "updated") == (second.id, second.outcome)
    assert [key] == [row["key"] for row in (await stored(sql)).values()]


async def test_keys_are_compared_exactly(sql: Session) -> None:
    """Case, blanks and Unicode normalization make a difference."""
    keys = ("k", "K", " k", "k ", "\u00e9", "e\u0301")
    for key in keys:
        await add_one(sql, key=key)

    assert set(keys) == {row["key"] for row in (await stored(sql)).values()}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("job_key := ''", "GWBJK", "job_key is empty, at least 1 character is needed"),
        ("job_key := repeat('k', 513)", "GWBJK", "job_key is 513 characters long, at most 512 are allowed"),
        ("job_key := 'k', queue_name := repeat('q', 129)", "GWBQN",
         "queue_name is 129 characters long, at most 128 are allowed"),
        ("job_key := 'k', max_attempts := 0", "GWBMA", "max_attempts is 0, at least 1 is needed"),
        ("job_key := 'k', job_key_mode := ''", "GWBKM",
            "job_key_mode '' is unknown, expected 'replace', 'preserve_run_at' or 'unsafe_dedupe'"),
    ],
)  # fmt: skip
async def test_a_refused_add_does_not_change_the_job_that_has_the_key(
    sql: Session, arguments: str, code: str, said: str
) -> None:
    """The limits are checked before anything is locked or written."""
    old = await hold(sql, "scheduled")
    error = await sql.refusal(f"select asyncq.add_job('refused', {arguments})")

    assert (code, said) == (error.sqlstate, error.message)
    assert {old["id"]: old} == await stored(sql)
    assert ["old"] == await names(sql)


@pytest.mark.parametrize("state", [None, *WAITING, "retryable", *SPENT])
@pytest.mark.parametrize("mode", MODES)
async def test_add_job_returns_the_row_of_the_job_that_has_the_key(sql: Session, mode: str, state: str | None) -> None:
    """There is always a row; graphile-worker returns a row of nulls in some cases."""
    if state:
        await hold(sql, state)
    row = await sql.row("select * from asyncq.add_job('t', job_key := $1, job_key_mode := $2)", KEY, mode)
    (holder,) = await sql.rows("select * from asyncq.jobs where key = $1", KEY)

    assert dict(holder) == dict(row)


async def test_a_job_that_lost_its_key_shows_its_last_attempt(sql: Session) -> None:
    """attempts = max_attempts, as in graphile-worker. The largest max_attempts must not overflow."""
    old = await hold(sql, "active")
    await sql.execute("update asyncq._jobs set max_attempts = 32767")
    await add_one(sql)

    assert (32767, 32767) == tuple(
        await sql.row("select attempts, max_attempts from asyncq.jobs where id = $1", old["id"])
    )


async def test_keyed_adds_ignore_the_callers_settings(sql: Session) -> None:
    """They run in other programs' sessions, whose settings may change how literals, dates or names are read."""
    await sql.execute("""
        set local standard_conforming_strings = off;
        set local datestyle = 'SQL, DMY';
        set local plpgsql.variable_conflict = 'error';
        set local plpgsql.extra_errors = 'all';
        set local search_path = '';""")
    for state in ("scheduled", "active"):
        await hold(sql, state)
        for mode in MODES:
            await add_all(
                sql, [Spec(queue="q", flags='{"f": true}', mode=mode), Spec("other", mode=mode), Spec(key=None)]
            )
        await sql.rows("select asyncq.remove_job($1)", KEY)

    assert {None} == {row["key"] for row in (await stored(sql)).values()}


async def test_flags_and_meta_of_a_request_arrive(sql: Session) -> None:
    """The public function passes them on."""
    await hold(sql, "scheduled")
    row = await sql.row("""
        select * from asyncq.add_job('t', job_key := 'k', flags := '{b,a}', options := '{"meta": {"m": 1}}')""")
    (job,) = (await stored(sql)).values()

    assert ({"a": True, "b": True}, {"m": 1}) == (json.loads(row["flags"]), json.loads(job["meta"]))

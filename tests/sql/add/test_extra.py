"""`_extra`: the options of an add, checked, become the record of a job to be added."""

import json
from typing import Any

import pytest

from asyncq.domain import deduplication
from asyncq.domain.errors import InvalidJob
from asyncq.domain.job import JobSpec
from tests.support.asking import RIGHT, WRONG
from tests.support.session import Session
from tests.support.unique import DEFAULT_STATES, WINDOW_S

EXTRA = "select asyncq._extra($1::text::jsonb, $2, $3, $4::text::json, $5)::text"


async def extra(
    sql: Session,
    options: dict[str, Any] | None,
    *,
    task: str | None = "email.send",
    queue: str | None = None,
    payload: str | None = None,
    job_key: str | None = None,
) -> dict[str, Any] | None:
    """The record that the functions for adds read."""
    text = await sql.value(EXTRA, None if options is None else json.dumps(options), task, queue, payload, job_key)
    return None if text is None else json.loads(text)


async def keyed(sql: Session, task: str, subject: str | None) -> str:
    """The key of a singleton."""
    key = "select asyncq._unique_key(asyncq._check_policy('{}'), $1, null, null, null, $2)::text"
    return await sql.value(key, task, subject)


@pytest.mark.parametrize("options", [None, {}, {"unique": None, "singleton": False, "force": False}])
async def test_a_job_without_rules_has_none(sql: Session, options: dict[str, Any] | None) -> None:
    """Such a job takes no key lock."""
    assert await extra(sql, options) is None


async def test_a_policy_has_its_key_and_names_the_states_that_conflict(sql: Session) -> None:
    """The key is that of the spec's worked example."""
    policy = {"keys": ["type", "queue", "args"], "args_keys": ["user_id"]}
    asked = await extra(
        sql, {"unique": policy}, queue="notifications", payload='{"user_id": 42, "template": "welcome"}'
    )

    assert {
        "unique_key": r"\x71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f",
        "on_conflict": "reject",
        "states": [*DEFAULT_STATES],
        "period": None,
    } == asked


async def test_every_member_of_a_policy_arrives(sql: Session) -> None:
    """The queue and meta count in the key."""
    policy = {
        "keys": ["queue", "meta"],
        "meta_keys": ["m"],
        "period": "PT1H",
        "states": ["completed"],
        "on_conflict": "ignore",
    }
    asked = [
        (await extra(sql, {"unique": policy, "meta": {"m": m, "n": n}}, queue=queue) or {}) | {"meta": None}
        for m, n, queue in ((1, 1, "a"), (1, 2, "a"), (2, 1, "a"), (1, 1, "b"))
    ]

    assert [0, 0, 2, 3] == [next(i for i, one in enumerate(asked) if one == other) for other in asked]
    assert ("PT1H", ["completed"], "ignore") == (asked[0]["period"], asked[0]["states"], asked[0]["on_conflict"])


async def test_a_singleton_is_a_policy_that_ignores(sql: Session) -> None:
    """One mechanism for both."""
    key = await keyed(sql, "email.send", None)
    subject = await keyed(sql, "email.send", "a")
    asked = {"unique_key": key, "on_conflict": "ignore", "states": [*DEFAULT_STATES], "period": None}

    assert asked == await extra(sql, {"singleton": True}, queue="q", payload='{"any": 1}')
    assert asked | {"unique_key": subject} == await extra(sql, {"singleton": True, "subject": "a"})


@pytest.mark.parametrize("options", [{"singleton": True}, {"unique": {}}, {"unique": {"on_conflict": "replace"}}])
async def test_a_forced_job_has_the_key_and_ignores_conflicts(sql: Session, options: dict[str, Any]) -> None:
    """Later adds find the job by its key."""
    asked = await extra(sql, options)

    assert asked is not None
    assert asked | {"on_conflict": "add"} == await extra(sql, options | {"force": True})
    assert asked | {"on_conflict": "add"} == await extra(sql, options | {"force": True}, job_key="k")


@pytest.mark.parametrize("options", [{"singleton": True}, {"unique": {}}, {"unique": {"on_conflict": "ignore"}}])
async def test_a_rerun_is_part_of_it(sql: Session, options: dict[str, Any]) -> None:
    """The policy is included as well."""
    asked = await extra(sql, options)

    assert asked is not None
    assert asked | {"rerun": True} == await extra(sql, options | {"rerun": True})


async def test_an_idempotency_key_works_with_every_option(sql: Session) -> None:
    """It holds for a day."""
    request = {"idempotency_key": "k" * 200, "window_s": WINDOW_S}
    plain = await extra(sql, {"idempotency_key": "k" * 200})
    with_key = await extra(sql, {"idempotency_key": "k" * 200}, job_key="k")
    unique = await extra(sql, {"idempotency_key": "k" * 200, "singleton": True, "rerun": True})

    an_hour = await extra(sql, {"idempotency_key": "k", "idempotency_window_s": 3600})

    assert [request, request] == [plain, with_key]
    assert {"idempotency_key": "k", "window_s": 3600} == an_hour
    assert unique == request | (await extra(sql, {"singleton": True, "rerun": True}) or {})


async def test_a_missing_task_is_left_to_the_check_of_the_jobs(sql: Session) -> None:
    """It has the code for that."""
    assert await extra(sql, {"singleton": True}, task=None) is None
    assert "GWBID" == (await sql.refusal("select asyncq.add_job(null, options := '{\"unique\": {}}')")).sqlstate


@pytest.mark.parametrize(("options", "has_job_key"), RIGHT, ids=str)
async def test_sql_and_python_send_the_same_rules(sql: Session, options: dict[str, Any], has_job_key: bool) -> None:
    """A job from SQL and one from Python must conflict with each other."""
    payload = '{"a": 1.0, "b": [1]}'
    spec = JobSpec(task="t\u00e9", payload=payload, queue="q", job_key="k" if has_job_key else None)
    asked = deduplication.extra(spec.with_options(**options))

    in_sql = await extra(sql, options, task="t\u00e9", queue="q", payload=payload, job_key=spec.job_key)
    defaults = {"states": [*DEFAULT_STATES], "period": None} if "unique_key" in (in_sql or {}) else {}
    arguments = {"job_key": "k"} if has_job_key else {}

    assert defaults | json.loads(asked or "{}") == arguments | (in_sql or {})


@pytest.mark.parametrize(("options", "has_job_key", "code", "field"), WRONG, ids=str)
async def test_options_that_break_a_rule_are_refused(
    sql: Session, options: dict[str, Any], has_job_key: bool, code: str, field: str
) -> None:
    """The error has the member's name, and no job is added."""
    key = "k" if has_job_key else None
    error = await sql.refusal(
        "select asyncq.add_job('t', options := $1::text::jsonb, job_key := $2)", json.dumps(options), key
    )

    assert (code, field) == (error.sqlstate, error.column_name)
    assert error.message.startswith(field)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(("options", "has_job_key", "code", "field"), WRONG, ids=str)
async def test_the_messages_of_sql_and_python_are_equal(
    sql: Session, options: dict[str, Any], has_job_key: bool, code: str, field: str
) -> None:
    """The messages are equal, except for the names of types."""
    key = "k" if has_job_key else None
    error = await sql.refusal(EXTRA, json.dumps(options), "t", None, None, key)
    with pytest.raises(InvalidJob) as caught:
        deduplication.extra(JobSpec(task="t", job_key=key).with_options(**options))
    said = str(caught.value)

    assert error.message == said or "must be" in said
    assert (code, field) == (caught.value.code, caught.value.field)


@pytest.mark.parametrize("window", [0, -1, 1e-7, 31_622_401, "60", True])
async def test_a_window_that_cannot_work_is_refused(sql: Session, window: Any) -> None:
    """Clients refuse it too."""
    options = {"idempotency_key": "k", "idempotency_window_s": window}
    error = await sql.refusal(EXTRA, json.dumps(options), "t", None, None, None)

    assert ("GWBIK", "idempotency_window_s") == (error.sqlstate, error.column_name)


async def test_a_window_without_a_key_is_refused(sql: Session) -> None:
    """It has no effect."""
    error = await sql.refusal(EXTRA, json.dumps({"idempotency_window_s": 60}), "t", None, None, None)

    assert ("GWBIK", "idempotency_window_s") == (error.sqlstate, error.column_name)

"""`_dedupe`: the options of an add, checked, become what `_add_jobs` asks about other jobs."""

import json
from typing import Any

import pytest

from tests.sql.session import Session
from tests.sql.unique import DEFAULT_STATES, WINDOW_S

DEDUPE = "select asyncq._dedupe($1::text::jsonb, $2, $3, $4::text::json, $5)::text"


async def dedupe(
    sql: Session,
    options: dict[str, Any] | None,
    *,
    task: str | None = "email.send",
    queue: str | None = None,
    payload: str | None = None,
    job_key: str | None = None,
) -> dict[str, Any] | None:
    """What is asked."""
    text = await sql.value(DEDUPE, None if options is None else json.dumps(options), task, queue, payload, job_key)
    return None if text is None else json.loads(text)


async def keyed(sql: Session, function: str, *args: str | None) -> str:
    """A key, by the function that makes it."""
    marks = ", ".join(f"${number}" for number, _ in enumerate(args, 1))
    return await sql.value(f"select encode(asyncq.{function}({marks}), 'hex')", *args)


@pytest.mark.parametrize(
    "options", [None, {}, {"meta": {"a": 1}}, {"unique": None, "singleton": False, "force": False}]
)
async def test_who_asks_nothing_has_none(sql: Session, options: dict[str, Any] | None) -> None:
    """Such a job passes no gate."""
    assert await dedupe(sql, options) is None


async def test_a_policy_has_its_key_and_says_whom_the_job_looks_at(sql: Session) -> None:
    """The key is that of the spec's worked example."""
    policy = {"keys": ["type", "queue", "args"], "args_keys": ["user_id"]}
    asked = await dedupe(
        sql, {"unique": policy}, queue="notifications", payload='{"user_id": 42, "template": "welcome"}'
    )

    assert {
        "key": "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f",
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
        await dedupe(sql, {"unique": policy, "meta": {"m": m, "n": n}}, queue=queue)
        for m, n, queue in ((1, 1, "a"), (1, 2, "a"), (2, 1, "a"), (1, 1, "b"))
    ]

    assert [0, 0, 2, 3] == [next(i for i, one in enumerate(asked) if one == other) for other in asked]
    assert ("PT1H", ["completed"], "ignore") == (asked[0]["period"], asked[0]["states"], asked[0]["on_conflict"])


async def test_a_singleton_is_a_policy_that_ignores(sql: Session) -> None:
    """One mechanism for both."""
    key = await keyed(sql, "_singleton_key", "email.send", None)
    subject = await keyed(sql, "_singleton_key", "email.send", "a")
    asked = {"key": key, "on_conflict": "ignore", "states": [*DEFAULT_STATES], "period": None}

    assert asked == await dedupe(sql, {"singleton": True}, queue="q", payload='{"any": 1}')
    assert asked | {"key": subject} == await dedupe(sql, {"singleton": True, "subject": "a"})


@pytest.mark.parametrize("options", [{"singleton": True}, {"unique": {}}, {"unique": {"on_conflict": "replace"}}])
async def test_who_forces_has_the_key_and_looks_at_nobody(sql: Session, options: dict[str, Any]) -> None:
    """Later adds see the job."""
    asked = await dedupe(sql, options)

    assert asked is not None
    assert asked | {"on_conflict": "add"} == await dedupe(sql, options | {"force": True})
    assert asked | {"on_conflict": "add"} == await dedupe(sql, options | {"force": True}, job_key="k")


@pytest.mark.parametrize("options", [{"singleton": True}, {"unique": {}}, {"unique": {"on_conflict": "ignore"}}])
async def test_who_reruns_says_so(sql: Session, options: dict[str, Any]) -> None:
    """Beside what the policy says."""
    asked = await dedupe(sql, options)

    assert asked is not None
    assert asked | {"rerun": True} == await dedupe(sql, options | {"rerun": True})


async def test_an_idempotency_key_goes_with_everything(sql: Session) -> None:
    """It holds for a day."""
    request = {"request": "k" * 200, "window_s": WINDOW_S}
    plain = await dedupe(sql, {"idempotency_key": "k" * 200})
    with_key = await dedupe(sql, {"idempotency_key": "k" * 200}, job_key="k")
    unique = await dedupe(sql, {"idempotency_key": "k" * 200, "singleton": True, "rerun": True})

    assert [request, request] == [plain, with_key]
    assert unique == request | (await dedupe(sql, {"singleton": True, "rerun": True}) or {})


async def test_a_missing_task_is_left_to_the_check_of_the_jobs(sql: Session) -> None:
    """It has the code for that."""
    assert await dedupe(sql, {"singleton": True}, task=None) is None
    assert "GWBID" == (await sql.refusal("select asyncq.add_job(null, options := '{\"unique\": {}}')")).sqlstate


TWICE = "they are two answers to what becomes of an add beside another job"
BAD: list[tuple[dict[str, Any], str | None, str, str, str]] = [
    # options, job_key, code, field, message
    ({"unique": 1}, None, "GWBUP", "unique", "unique must be an object, got number"),
    ({"unique": {"argz": 1}}, None, "GWBUP", "unique", "unique has no member 'argz'"),
    ({"unique": {"args_keys": ["x"]}}, None, "GWBUP", "unique.args_keys", "unique.args_keys names 'x'"),
    ({"unique": {"keys": ["meta"], "meta_keys": ["x"]}}, None, "GWBUP", "unique.meta_keys",
        "unique.meta_keys names 'x'"),
    ({"singleton": "yes"}, None, "GWBUP", "singleton", "singleton must be true or false"),
    ({"singleton": 1}, None, "GWBUP", "singleton", "singleton must be true or false"),
    ({"force": "x", "singleton": True}, None, "GWBUP", "force", "force must be true or false"),
    ({"rerun": 0, "singleton": True}, None, "GWBUP", "rerun", "rerun must be true or false"),
    ({"subject": 5, "singleton": True}, None, "GWBUP", "subject", "subject must be a text"),
    ({"subject": "", "singleton": True}, None, "GWBUP", "subject", "subject is empty, at least 1 character is needed"),
    ({"subject": "s" * 513, "singleton": True}, None, "GWBUP", "subject",
        "subject is 513 characters long, at most 512 are allowed"),
    ({"unique": {}, "singleton": True}, None, "GWBUP", "unique", "unique goes without singleton"),
    ({"subject": "a"}, None, "GWBUP", "subject", "subject says for what a job is the only one: it needs singleton"),
    ({"subject": "a", "unique": {}}, None, "GWBUP", "subject", "subject says for what a job is the only one"),
    ({"subject": "a", "singleton": False}, None, "GWBUP", "subject", "subject says for what a job is the only one"),
    ({"force": True}, None, "GWBUP", "force", "force lifts a policy: it needs unique or singleton"),
    ({"rerun": True}, None, "GWBUP", "rerun", "rerun looks for a job that runs: it needs unique or singleton"),
    ({"rerun": True, "force": True, "singleton": True}, None, "GWBUP", "rerun", "rerun goes without force"),
    ({"rerun": True, "unique": {"on_conflict": "replace"}}, None, "GWBUP", "rerun",
        "rerun waits for the job that runs, which unique.on_conflict 'replace' cancels"),
    ({"rerun": True, "unique": {"on_conflict": "replace_except_schedule"}}, None, "GWBUP", "rerun",
        "rerun waits for the job that runs, which unique.on_conflict 'replace_except_schedule' cancels"),
    ({"unique": {}}, "k", "GWBUP", "job_key", f"job_key goes without unique and singleton: {TWICE}"),
    ({"singleton": True}, "k", "GWBUP", "job_key", f"job_key goes without unique and singleton: {TWICE}"),
    ({"idempotency_key": 5}, None, "GWBIK", "idempotency_key", "idempotency_key must be a text"),
    ({"idempotency_key": ""}, None, "GWBIK", "idempotency_key",
        "idempotency_key is empty, at least 1 character is needed"),
    ({"idempotency_key": "k" * 201}, None, "GWBIK", "idempotency_key",
        "idempotency_key is 201 characters long, at most 200 are allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "job_key", "code", "field", "said"), BAD, ids=str)
async def test_options_that_break_a_rule_are_refused(
    sql: Session, options: dict[str, Any], job_key: str | None, code: str, field: str, said: str
) -> None:
    """With the member that breaks it; and no job is added."""
    error = await sql.refusal(
        "select asyncq.add_job('t', options := $1::text::jsonb, job_key := $2)", json.dumps(options), job_key
    )

    assert (code, field, said) == (error.sqlstate, error.column_name, error.message[: len(said)])
    assert 0 == await sql.value("select count(*) from asyncq._jobs")

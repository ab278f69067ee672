"""`_extra`: unknown members are errors, so that they can get a meaning later."""

import pytest

from tests.support.session import Session

KNOWN = (
    "there are meta, unique, singleton, subject, force, rerun, idempotency_key, idempotency_window_s, timeout_s, "
    "soft_s, expires_s, expires_at, deadline_s, deadline_at, keep_s, after, if_failed, takes, takes_as"
)
BAD = {
    "[]": ("22023", "options must be an object, got array"),
    '"meta"': ("22023", "options must be an object, got string"),
    "null": ("22023", "options must be an object, got null"),
    '{"bogus": 1}': ("22023", f"options: 'bogus' is unknown; {KNOWN}"),
    '{"Meta": {}}': ("22023", f"options: 'Meta' is unknown; {KNOWN}"),
    '{"idempotencyKey": "k"}': ("22023", f"options: 'idempotencyKey' is unknown; {KNOWN}"),
    '{"meta": 1}': ("22023", "options: meta must be an object, got number"),
    '{"meta": null}': ("22023", "options: meta must be an object, got null"),
    '{"meta": {}, "bogus": 1}': ("22023", f"options: 'bogus' is unknown; {KNOWN}"),
}


CALLS = {
    "add_job": "select asyncq.add_job('t', options := $1::text::jsonb)",
    "add_jobs": """
        select asyncq.add_jobs(
          array[('t', null, null, null, null, null, null, null, null, $1::text::jsonb)]::asyncq.job_spec[])""",
    "enqueue": "select asyncq.enqueue(json_build_object('identifier', 't', 'options', $1::text::json))",
}


@pytest.mark.parametrize("options", BAD)
@pytest.mark.parametrize("call", CALLS)
async def test_wrong_options_are_refused(sql: Session, options: str, call: str) -> None:
    """The error has the member's name, and no job is added."""
    if call == "enqueue" and not options.startswith("{"):
        return  # _check_members refuses it.
    error = await sql.refusal(CALLS[call], options)

    assert (*BAD[options], "options") == (error.sqlstate, error.message, error.column_name)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


def nested(depth: int) -> str:
    """A meta whose list is nested so deep."""
    return '{"meta": {"a": ' + "[" * depth + "]" * depth + "}}"


UNREADABLE = {
    "deep": (nested(500), "options: meta is nested more than 500 levels deep"),
    "deeper": (nested(3000), "options: meta is nested more than 500 levels deep"),
    "large": ('{"meta": {"n": [1e5000]}}', "options: meta holds a number beyond 1.8e308, which cannot be read"),
    "small": ('{"meta": {"n": -1e309}}', "options: meta holds a number beyond 1.8e308, which cannot be read"),
    "long": (
        '{"meta": {"a": "' + "x" * 16777216 + '"}}',
        "options: meta is 16777225 bytes of JSON, at most 16777216 are allowed",
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("options", UNREADABLE)
async def test_a_meta_that_a_reader_may_refuse_is_refused(sql: Session, options: str, call: str) -> None:
    """One job would hide all others from who lists them."""
    text, said = UNREADABLE[options]
    error = await sql.refusal(CALLS[call], text)

    assert ("22023", said, "options") == (error.sqlstate, error.message, error.column_name)


@pytest.mark.parametrize(
    "options",
    [nested(499), '{"meta": {"n": [1.7976931348623157e308, -1.7976931348623157e308, "1e5000"]}}'],
    ids=["deep", "large"],
)
async def test_a_meta_that_can_be_read_is_taken(sql: Session, options: str) -> None:
    """A limit is the last value that works."""
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", options)

    assert 1 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(
    "options",
    [
        None,
        "{}",
        '{"meta": {}}',
        '{"meta": {"a": [1, null]}}',
        '{"unique": null, "singleton": null, "subject": null, "force": null, "rerun": null, "idempotency_key": null}',
        '{"timeout_s": null, "soft_s": null, "expires_s": null, "expires_at": null, "deadline_s": null}',
    ],
)
async def test_known_options_are_taken(sql: Session, options: str | None) -> None:
    """Null and the empty object say nothing; drivers that bind all members send nulls."""
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", options)

    assert 1 == await sql.value("select count(*) from asyncq._jobs")

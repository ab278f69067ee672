"""`_check_cron_item`: invalid items are refused, as far as SQL can decide."""

import json
from typing import Any

import pytest

from tests.support.session import Session

CHECK = "select asyncq._check_cron_item($1, $2::text::jsonb)"
GOOD = {"task": "t", "expression": "0 8 * * *"}


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"expression": "  @daily "},
        {"expression": "*/5 H(1-5) 1,15 jan mon-fri", "dialect": "extended", "tz": "Europe/Berlin"},
        {"expression": "99 * * * *"},  # a worker reports it
        {"payload": {"a": [1]}, "fill": 0, "overlap": "skip", "queue": "q", "max_attempts": 32767, "priority": -32768},
        {"fill": "3d12h", "flags": ["a"], "job_key": "k", "job_key_mode": "preserve_run_at", "overlap": "allow"},
    ],
    ids=str,
)
async def test_a_valid_item_passes(sql: Session, members: dict[str, Any]) -> None:
    """Workers check the rest, since they have the parser and the task."""
    assert 1 == len(await sql.rows(CHECK, "a", json.dumps(GOOD | members)))


@pytest.mark.parametrize("expression", ["0 8 * * *", "@daily"])
async def test_an_expression_is_read_with_any_settings_of_the_caller(sql: Session, expression: str) -> None:
    """Some roles and databases read a backslash in a plain literal as an escape."""
    await sql.execute("set local standard_conforming_strings = off; set local escape_string_warning = off")

    assert 1 == len(await sql.rows(CHECK, "a", json.dumps(GOOD | {"expression": expression})))


@pytest.mark.parametrize(
    ("members", "field", "said"),
    [
        ({"task": ""}, "task", "task is missing"),
        ({"task": "a\nb"}, "task", "task holds a control character"),
        ({"task": 1}, "task", "task must be of the JSON type string, got number"),
        (
            {"expression": "* * * *"},
            "expression",
            "expression is '* * * *', expected five fields, or a word such as @daily",
        ),
        ({"expression": "* * * * * *"}, "expression", "expression is '* * * * * *', expected five fields"),
        ({"dialect": "quartz"}, "dialect", "dialect is 'quartz', expected extended or crontab"),
        ({"overlap": "queue"}, "overlap", "overlap is 'queue', expected allow, skip, replace"),
        ({"overlap": "skip", "job_key": "k"}, "overlap", "overlap 'skip' goes without job_key"),
        ({"tz": "Mars/Phobos"}, "tz", "tz is 'Mars/Phobos', expected an IANA name such as Europe/Berlin"),
        ({"fill": "soon"}, "fill", "fill is 'soon', expected seconds, or a text such as 3d12h"),
        ({"fill": -1}, "fill", "fill is -1, expected seconds from 0 to 36525 days"),
        ({"fill": True}, "fill", "fill must be of the JSON type number, got boolean"),
        ({"max_attempts": 0}, "max_attempts", "max_attempts is 0, expected 1 to 32767"),
        ({"max_attempts": 1.5}, "max_attempts", "max_attempts is 1.5, expected 1 to 32767"),
        ({"priority": 99999}, "priority", "priority is 99999, expected -32768 to 32767"),
        ({"max_attempts": "x"}, "max_attempts", "max_attempts must be of the JSON type number, got string"),
        ({"flags": "x"}, "flags", "flags must be of the JSON type array, got string"),
        ({"payload": [1]}, "payload", "payload must be of the JSON type object, got array"),
        ({"flags": [1]}, "flags", "flags must be an array of texts"),
        ({"identifier": "b"}, "options", "options have no member 'identifier'; there are payload, dialect"),
    ],
    ids=str,
)
async def test_an_invalid_item_is_refused(sql: Session, members: dict[str, Any], field: str, said: str) -> None:
    """The error has the wrong member and the expected type."""
    error = await sql.refusal(CHECK, "a", json.dumps(GOOD | members))

    assert ("22023", field) == (error.sqlstate, error.column_name)
    assert str(error).startswith(said)


@pytest.mark.parametrize(
    ("members", "code"),
    [({"queue": "q" * 129}, "GWBQN"), ({"job_key": ""}, "GWBJK"), ({"job_key_mode": "keep"}, "GWBKM")],
    ids=str,
)
async def test_the_limits_of_its_jobs_are_those_of_any_job(sql: Session, members: dict[str, Any], code: str) -> None:
    """Otherwise each slot would fail."""
    assert code == (await sql.refusal(CHECK, "a", json.dumps(GOOD | members))).sqlstate


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (None, "must not be null"),
        ("", "is 0 characters long"),
        ("x" * 129, "is 129 characters"),
        ("a\n", "control character"),
    ],
    ids=["null", "empty", "long", "control"],
)
async def test_an_identifier_is_a_name(sql: Session, item: str | None, said: str) -> None:
    """It is shown in logs and on the command line."""
    error = await sql.refusal(CHECK, item, json.dumps(GOOD))

    assert ("identifier", True) == (error.column_name, said in str(error))


@pytest.mark.parametrize(("depth", "passes"), [(499, True), (500, False), (3000, False)])
async def test_a_payload_is_not_nested_so_deep_that_a_list_of_items_cannot_be_read(
    sql: Session, depth: int, *, passes: bool
) -> None:
    """One item would hide all others."""
    members = '{"task": "t", "expression": "@daily", "payload": {"a": ' + "[" * depth + "]" * depth + "}}"
    if passes:
        assert 1 == len(await sql.rows(CHECK, "a", members))
        return
    error = await sql.refusal(CHECK, "a", members)

    assert ("payload", "payload is nested more than 500 levels deep") == (error.column_name, str(error))

"""`_check_options`: unknown members are errors from the first day, so that a later meaning surprises nobody."""

import pytest

from tests.sql.session import Session

KNOWN = "there are meta, unique, singleton, subject, force, rerun, idempotency_key, idempotency_window_s"
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


@pytest.mark.parametrize("options", BAD)
async def test_wrong_options_are_refused(sql: Session, options: str) -> None:
    """With the member's name; and no job is added."""
    error = await sql.refusal("select asyncq.add_job('t', options := $1::text::jsonb)", options)

    assert (*BAD[options], "options") == (error.sqlstate, error.message, error.column_name)
    assert 0 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize(
    "options",
    [
        None,
        "{}",
        '{"meta": {}}',
        '{"meta": {"a": [1, null]}}',
        '{"unique": null, "singleton": null, "subject": null, "force": null, "rerun": null, "idempotency_key": null}',
    ],
)
async def test_known_options_are_taken(sql: Session, options: str | None) -> None:
    """Null and the empty object say nothing; drivers that bind all members send nulls."""
    await sql.rows("select asyncq.add_job('t', options := $1::text::jsonb)", options)

    assert 1 == await sql.value("select count(*) from asyncq._jobs")

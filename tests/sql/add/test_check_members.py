"""`_check_members`: jobs as JSON come from outside, and a misspelt member must not be lost silently."""

import pytest

from tests.support.session import Session

BAD = {
    "null": ("22023", "jobs", "jobs must be an object or an array of objects, got null"),
    '"x"': ("22023", "jobs", "jobs must be an object or an array of objects, got string"),
    "[{}, 1]": ("22023", "jobs", "each job must be an object, got number"),
    "[[{}]]": ("22023", "jobs", "each job must be an object, got array"),
    '[{"queue": "q"}]': ("22023", "queue", "a job has no member 'queue'"),
    '[{"identifier": 5}]': ("22023", "identifier", "identifier must be string, got number"),
    '[{"identifier": {"a": 1}}]': ("22023", "identifier", "identifier must be string, got object"),
    '[{"run_at": 5}]': ("22023", "run_at", "run_at must be string, got number"),
    '[{"priority": "5"}]': ("22023", "priority", "priority must be number, got string"),
    '[{"flags": "f"}]': ("22023", "flags", "flags must be array, got string"),
    '[{"options": []}]': ("22023", "options", "options must be object, got array"),
    '[{"payload": "\\u0000"}]': ("GWBPL", "payload", "a job holds \\u0000, which PostgreSQL cannot store as text"),
}


@pytest.mark.parametrize("jobs", BAD)
async def test_a_malformed_job_is_refused(sql: Session, jobs: str) -> None:
    """The error has the member's name and the expected type."""
    error = await sql.refusal("select asyncq._check_members($1::text::json)", jobs)

    code, field, said = BAD[jobs]
    assert (code, field, True) == (error.sqlstate, error.column_name, error.message.startswith(said)), error.message


async def test_a_missing_value_is_refused(sql: Session) -> None:
    """The null of SQL, too."""
    assert "22023" == (await sql.refusal("select asyncq._check_members(null)")).sqlstate


async def test_the_wrong_job_is_named(sql: Session) -> None:
    """It is hard to find among many."""
    error = await sql.refusal("""select asyncq._check_members('[{}, {"x": 1}, {"y": 1}]')""")

    assert ("x", "Job 2 of 3.") == (error.column_name, error.detail)


@pytest.mark.parametrize("jobs", ["[]", "[{}]", '[{"priority": null, "options": null}]', '[{"payload": "\\\\u0000"}]'])
async def test_a_well_formed_job_passes(sql: Session, jobs: str) -> None:
    """Its values are checked later, where all adds meet."""
    assert await sql.rows("select asyncq._check_members($1::text::json)", jobs)

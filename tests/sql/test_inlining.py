"""The conditions of a fetch are functions that the planner inlines: none is called for a row."""

import pytest

from asyncq.store.statements import query
from tests.support.session import Session

STATEMENTS = {
    "fetch_jobs": "1, 1, 10, '{1}', '{f}', null, null, null, null, null, 1, '{}', true",
    "claim_next": "1, '{}', '{}', 10, 1, '{1}', '{f}', null, null, null",
    "next_due": "1, null, null, null, null, null, null",
    "unknown_tasks": "'{1}'",
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_function_of_a_fetch_is_left_in_its_plan(sql: Session, name: str) -> None:
    """A call for each row would dominate the cost, and hide the right index from the planner."""
    await sql.execute("set local plan_cache_mode = force_generic_plan")
    await sql.execute(f"prepare inlined as {query(name, sql.schema)}")
    plan = "\n".join(await sql.values(f"explain (verbose, costs off) execute inlined({STATEMENTS[name]})"))
    await sql.execute("deallocate inlined")

    assert ("_is_" in plan, "_claimed" in plan) == (False, False)
    assert "max_attempts" in plan or "jobs_ready" in plan

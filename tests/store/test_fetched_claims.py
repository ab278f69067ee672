"""`fetch_jobs` of the store: a claim says the same, whichever of the two statements has brought it."""

from __future__ import annotations

import msgspec
import pytest

from asyncq.domain.job import Claim
from asyncq.store.database import Database, Line
from asyncq.store.jobs import START, fetch_jobs
from tests.sql.jobs import add
from tests.sql.session import Session, session

ROWS = {
    "only added": "priority = 3",
    "due later than it was added": "run_at = created_at + interval '1 us'",
    "changed since": "updated_at = created_at + interval '1 us', revision = 2",
    "changed back to the time when it is due": "created_at = run_at - interval '1 s', updated_at = run_at",
    "failed before": r"""attempts = 2, last_error = E'a "quote"\\\nand ü'""",
    "interrupted before": "interruptions = 3",
    "flagged": """flags = '{"a": true, "ü": true}'""",
    "with meta": """meta = '{"a": [1, null, "x"]}'""",
    "with a key": "key = 'k', max_attempts = 7",
}


async def _claim(dsn: str, schema: str, sql: Session) -> Claim:
    """The only job, as a worker claims it; then it is free again."""
    line = Line(Database(dsn, schema), "fetch", generic_plans=True)
    try:
        [claim] = await fetch_jobs(line, 7, 5, 10, await sql.values("select id from asyncq._tasks"), None, START)
    finally:
        await line.close()
    await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    return claim


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS)
async def test_a_claim_by_the_short_form_says_what_one_by_the_long_form_says(
    dsn: str, schema: str, change: str
) -> None:
    """The short form leaves out what is usual; nobody who reads a claim may notice."""
    async with session(dsn, schema) as sql:
        job = await add(sql)
        await sql.execute(f"update asyncq._jobs set {change}")
        short = await _claim(dsn, schema, sql)
        await add(sql, queue="q", run_at="asyncq.now() + interval '1 h'")
        long = await _claim(dsn, schema, sql)

    assert job == short.id
    assert msgspec.to_builtins(long) == msgspec.to_builtins(short)

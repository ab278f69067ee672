"""`fetch_jobs` of the store: a claim says the same, whichever of the two statements has brought it."""

from __future__ import annotations

import msgspec
import pytest

from asyncq.domain.job import Claim
from asyncq.store import jobs
from asyncq.store.database import Database, ReconnectingConnection
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

# A task, a payload, max_attempts, a priority.
ADDED = [("t", r'{"a": "\u001e"}', 25, 0), ("u", "[ ]", 1, -5), ("t", '"ü"', 32767, 7)]


async def _claims(dsn: str, schema: str, sql: Session, *, packs: bool = False) -> list[Claim]:
    """All jobs, as a worker claims them; those that are claimed in their rows are free again then."""
    line = ReconnectingConnection(Database(dsn, schema), "fetch", generic_plans=True)
    tasks = await sql.values("select id from asyncq._tasks")
    try:
        claims = await fetch_jobs(line, 7, 5, 10, tasks, None, START, packable=tasks if packs else [])
    finally:
        await line.close()
    await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    return claims


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS)
async def test_a_claim_by_the_short_form_says_what_one_by_the_long_form_says(
    dsn: str, schema: str, change: str
) -> None:
    """The short form leaves out what is usual; nobody who reads a claim may notice."""
    async with session(dsn, schema) as sql:
        job = await add(sql)
        await sql.execute(f"update asyncq._jobs set {change}")
        [short] = await _claims(dsn, schema, sql)
        await add(sql, queue="q", run_at="asyncq.now() + interval '1 h'")
        [long] = await _claims(dsn, schema, sql)

    assert job == short.id
    assert msgspec.to_builtins(long) == msgspec.to_builtins(short)


@pytest.mark.parametrize("earlier", ["interval '0'", "interval '1 s' * (id - 1)"], ids=["when due", "before"])
async def test_claims_of_a_batch_say_what_those_of_rows_say(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    """One row tells of all of them: what belongs to one must not be told of another."""
    monkeypatch.setattr(jobs, "PACK_FROM", 2)
    async with session(dsn, schema) as sql:
        for added in ADDED:
            await sql.value("select id from asyncq.add_job($1, $2, null, null, $3, null, $4)", *added)
        await sql.execute(f"update asyncq._jobs set created_at = run_at - {earlier}, updated_at = run_at - {earlier}")
        rows = await _claims(dsn, schema, sql)
        batch = await _claims(dsn, schema, sql, packs=True)
        packed = await sql.value("select cardinality(ids) from asyncq._batches")

    assert (3, 3) == (len(rows), packed)
    assert rows == batch

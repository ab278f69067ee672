"""`fetch_jobs` of the store: a claim says the same, whether a row or a batch has brought it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from asyncq.domain.job import Claim
from asyncq.store import claim
from asyncq.store.claim import START, fetch_jobs
from asyncq.store.database import Database, ReconnectingConnection
from tests.support.jobs import NO_PARTITIONS, wake
from tests.support.session import Session, session

# A task, a payload, max_attempts, a priority.
ADDED = [
    ("t", r'{"a": "\u001e"}', 25, 0),
    ("u", "[ ]", 1, -5),
    ("t", '"ü"', 32767, 7),
]
QUEUES = ["q", 'q "1", ü', ""]
META = r'{"trace": "\u001e", "list": [1, null]}'


async def _claims(dsn: str, schema: str, sql: Session, *, of_queues: bool, packs: bool = False) -> list[Claim]:
    """All jobs as a worker claims them; those that were claimed in rows are free again afterwards."""
    line = ReconnectingConnection(Database(dsn, schema), "fetch", generic_plans=True)
    tasks = await sql.values("select id from asyncq._tasks")
    try:
        unbatched = [] if packs else tasks
        fetched = await fetch_jobs(line, 7, 5, 10, tasks, None, START, unbatched, of_partitions=of_queues)
    finally:
        await line.close()
    await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null; " + NO_PARTITIONS)
    await wake(sql)
    return fetched.claims


@pytest.mark.parametrize("earlier", ["interval '0'", "interval '1 s' * (id - 1)"], ids=["when due", "before"])
@pytest.mark.parametrize("has_meta", [False, True])
@pytest.mark.parametrize("of_queues", [False, True])
async def test_claims_of_a_batch_equal_those_of_rows(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, earlier: str, has_meta: bool, of_queues: bool
) -> None:
    """One row describes all of them: values of one job must not be returned for another."""
    monkeypatch.setattr(claim, "BATCH_FROM", 2)
    async with session(dsn, schema) as sql:
        for added, queue in zip(ADDED, QUEUES, strict=True):
            name = queue if of_queues else None
            await sql.value("select id from asyncq.add_job($1, $2, $5, null, $3, null, $4)", *added, name)
        if has_meta:
            await sql.execute(f"update asyncq._jobs set meta = '{META}' where id = 2")
        await sql.execute(f"update asyncq._jobs set created_at = run_at - {earlier}, updated_at = run_at - {earlier}")
        rows = await _claims(dsn, schema, sql, of_queues=of_queues)
        batch = await _claims(dsn, schema, sql, of_queues=of_queues, packs=True)
        batched = await sql.value("select cardinality(ids) from asyncq._batches")

    assert (3, 3) == (len(rows), batched)
    assert [replace(claim, is_packed=True) for claim in rows] == batch

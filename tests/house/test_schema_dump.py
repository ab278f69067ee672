"""The schema in the tests' server is the one that was written down: a change of it is seen in review."""

from pathlib import Path

import asyncpg

from asyncq.testing import temporary_schema
from tools.schema import GOLDEN, dump


async def test_the_schema_is_the_golden_one(db: asyncpg.Connection, schema: str) -> None:
    """After an intended change `make schema` updates the dump; its diff is for the reviewer."""
    actual = await dump(db, schema)

    assert GOLDEN.read_text("utf-8") == actual, "the schema has changed: run `make schema` and look at the diff"


async def test_the_dump_sees_a_change(db: asyncpg.Connection, dsn: str) -> None:
    """A dump that leaves something out guards nothing: a column, a default, a constraint, an index, a volatility."""
    changes = (
        "alter table {0}._jobs add column extra text",
        "alter table {0}._jobs alter column priority set default 1",
        "alter table {0}._workers drop constraint workers_pkey cascade",
        "drop index {0}.jobs_ready",
        "alter table {0}._workers set (fillfactor = 100)",
        "alter function {0}.now() volatile",
        "alter function {0}.clock() security definer",
        "drop function {0}.get_job(bigint)",
        "drop view {0}.jobs cascade",
    )
    seen = []
    async with temporary_schema(dsn) as schema:
        before = await dump(db, schema)
        for change in changes:
            await db.execute(f"set client_min_messages = warning; {change.format(schema)}")
            after = await dump(db, schema)
            seen.append(after != before)
            before = after

    assert [True] * len(changes) == seen


def test_the_golden_dump_is_not_part_of_the_package() -> None:
    """Only the tests use it, while sql/ is packaged completely."""
    assert Path(__file__).parents[1] / "sql" == GOLDEN.parent

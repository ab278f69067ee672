"""Each statement of `python -m benchmarks.statements` finds rows: a rescue without claims would look cheap."""

import asyncpg
import pytest

from asyncq import Client
from benchmarks.scale.place import Database, connect
from benchmarks.statements import BATCH, CLAIMS, Crowd, measured
from tests.benchmarks.test_scale import Nowhere
from tests.support.example_program import fresh_database

JOBS = 5_000
FOUND = {
    "rescue, 100 claims": CLAIMS,
    "rescue, 100 claims anywhere": CLAIMS,
    "rescue, 1,000 claims": 10 * CLAIMS,
    "rescue, a batch of 500": BATCH,
    "rescue, 1 claim": 1,
    "rescue, nobody dead": 0,
    "thorough rescue, nobody dead": 0,
    "return_lost, 100 claims": CLAIMS,
    "force_unlock_workers, 100 claims": CLAIMS,
}


@pytest.fixture
async def crowd(dsn: str):
    """A small table."""
    async with fresh_database(dsn) as name:
        await Client(name).migrate()
        connection, helper = await asyncpg.connect(name), await connect(name)
        crowd = Crowd(Database(name, connection, Nowhere(name)), JOBS, helper)
        await crowd.fill()
        yield crowd
        await helper.close(timeout=5)
        await connection.close(timeout=5)


async def test_each_statement_finds_what_its_row_says(crowd: Crowd) -> None:
    """The second try must have as much to do as the first."""
    costs = await measured(crowd.database, [*crowd.by_itself(), *crowd.when_asked(), *crowd.of_all()], 2)

    assert FOUND.items() <= {name: cost.rows for name, cost in costs.items()}.items()


async def test_a_store_that_was_filled_and_drained_keeps_its_laws(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of a table that no worker could leave behind would prove nothing."""
    monkeypatch.setattr("benchmarks.statements.DRAINED", 2 * BATCH)
    before = await crowd.helper.fetchval("select count(*) from asyncq.jobs")
    await crowd.drain()
    after = await crowd.helper.fetchval("select count(*) from asyncq.jobs")

    assert (before - 2 * BATCH, []) == (after, await crowd.helper.fetch("select * from asyncq.violations()"))

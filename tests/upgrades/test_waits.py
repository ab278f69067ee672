"""Jobs that wait for others, while workers of the release before run too."""

from pathlib import Path

from asyncq import Client
from asyncq.store.database import Database
from tests.support.session import Session
from tests.support.waits import left
from tests.upgrades.conftest import Later, StartWorker
from tests.upgrades.releases import Release, apply
from tests.upgrades.work import hold, step, wait_for_place, wait_until_settled

ADDITIVE = "alter table asyncq._jobs add column later_words text"
RUNS = "select count(*) from asyncq.runs where what in ('ran', 'ended')"


async def test_a_job_that_an_old_worker_ends_releases_what_waits_for_it(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Its statements end by functions of the new schema, which cut the edges. A worker of either release looks."""
    new = later(ADDITIVE)
    await apply(new, database)
    with start_worker(old, "old") as first:
        await first.says("takes jobs")
        async with Client(database.dsn, schema=database.schema) as client:
            held = (await client.add_job(hold)).id
            assert old.name == await wait_for_place(sql, held, 1)
            with start_worker(new, "new") as second:
                await second.says("takes jobs")
                waiter = await client.add_job(step, after=[held])
                await client.add_job(step, after=[waiter, held])
                (tmp_path / "leave").touch()
                await wait_until_settled(sql)

    assert (3, (0, 0)) == (await sql.value(RUNS), await left(sql))

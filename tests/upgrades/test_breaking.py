"""A breaking migration: workers of the previous release stop with an error, and nothing of theirs is lost."""

import asyncio
from pathlib import Path

from asyncq.store.database import Database
from tests.support.session import Session
from tests.upgrades.conftest import Later, StartWorker
from tests.upgrades.releases import NEWEST, Release, apply
from tests.upgrades.work import PLACES, add, wait_for_runs

BREAKING = f"-- breaking: needs {NEWEST + 1:06} of 0.9.0\nalter table asyncq._jobs add column later_words text;\n"
NAME = f"{NEWEST + 1:06}_later"


def sentence(schema: str) -> str:
    """The error of each process of the old release."""
    return f"the schema '{schema}' needs asyncq 0.9.0 or newer since its migration {NAME}, and this release knows"


async def test_an_old_worker_stops_when_it_is_outgrown_and_loses_nothing(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Running jobs may end, and no more are claimed.

    Buffered claims are returned with their attempts; the exit code is 3.
    """
    new = later(BREAKING)
    async with sql.connection.transaction():
        # At a fast pace it fetches ahead: when one is held some wait behind it.
        await add(sql, 300)
        (held,) = await add(sql, 1, "hold")
        await add(sql, 300)
    with start_worker(old, "old", "-j", "1") as worker:
        await wait_for_runs(sql, 1, "began")
        await apply(new, database)
        await worker.says("stops")
        await add(sql, 10)
        (tmp_path / "leave").touch()
        code = await worker.end()
    left = await sql.values("select asyncq._state(job) from asyncq._all_jobs() as job")
    untouched = "select count(*) from asyncq._all_jobs() where attempts = 0 and interruptions = 0 and locked_by is null"

    assert (3, True) == (code, sentence(database.schema) in worker.log.read_text())
    assert ([old.name], 1) == (
        await sql.values(PLACES, held),
        await sql.value("select count(*) from asyncq.runs where what = 'ended'"),
    )
    assert (310, 310, 300) == (
        len(left),
        await sql.value(untouched),
        await sql.value("select count(*) from asyncq.runs where what = 'ran'"),
    )
    assert {"available"} == {*left}
    assert 0 == await sql.value("select count(*) from asyncq._workers")


async def test_migrate_reports_beforehand_which_releases_will_stop(
    database: Database, old: Release, later: Later
) -> None:
    """The new release reports it on the schema of the old one, and again after the migration."""
    new = later(BREAKING)
    target = ("--dsn", database.dsn, "--schema", database.schema)
    checked = await new.runs(database.schema, "-m", "asyncq", "migrate", "--check", *target)
    migrated = await new.runs(database.schema, "-m", "asyncq", "migrate", *target)
    told = f"{NAME}, which stops workers and clients older than 0.9.0"

    assert (3, True) == (checked.returncode, f"pending: {told}" in checked.stdout.splitlines())
    assert (0, True) == (migrated.returncode, f"applied: {told}" in migrated.stdout.splitlines())


async def test_the_old_release_cannot_start_any_more_and_the_new_one_continues(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker
) -> None:
    """A worker, a client and a check report what to do. Its migrate changes nothing, and does not fail."""
    new = later(BREAKING)
    await add(sql, 3)
    await apply(new, database)
    target = ("--dsn", database.dsn, "--schema", database.schema)
    with start_worker(old, "old") as worker, start_worker(new, "new") as newer:
        added, checked, migrated = await asyncio.gather(
            old.runs(database.schema, "-m", "asyncq", "add", "step", *target),
            old.runs(database.schema, "-m", "asyncq", "migrate", "--check", *target),
            old.runs(database.schema, "-m", "asyncq", "migrate", *target),
        )
        code = await worker.end()
        await wait_for_runs(sql, 3)
        newer.signal()
        await newer.end()

    assert (3, 3, 3, 0) == (code, added.returncode, checked.returncode, migrated.returncode)
    assert [True] * 3 == [
        sentence(database.schema) in said for said in (worker.log.read_text(), added.stderr, checked.stderr)
    ]
    assert "nothing was changed" in migrated.stdout
    assert [new.name] == await sql.values("select distinct place from asyncq.runs")

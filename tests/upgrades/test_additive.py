"""Additive migrations: the previous release continues on the schema of the next, and beside its workers."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from asyncq import Client, SchemaMissing
from asyncq.store.database import Database
from asyncq.store.listen import TO_ALL, cancel_channel
from tests.sql.test_install import LINE_1, types
from tests.support.locks import be_up_for_long
from tests.support.session import Session
from tests.support.waiting import wait_until
from tests.upgrades.conftest import Later, StartWorker
from tests.upgrades.releases import NEWEST, Release, apply, version_of
from tests.upgrades.work import PLACES, add, hold, steps, wait_for_place, wait_for_runs, wait_until_settled
from tools.release import kept

ADDITIVE = """
alter table asyncq._jobs add column later_words text;
alter table asyncq._workers add column later_count int not null default 0;
alter table asyncq._migrations add column later_by text default current_user;
create table asyncq._later (id bigint constraint later_pkey primary key, job_id bigint not null);
create index jobs_later on asyncq._jobs (later_words) where later_words is not null;
"""
WHO = """
import asyncq, importlib.metadata, json
print(json.dumps([importlib.metadata.version("asyncq"), asyncq.__file__]))
"""
ADD = """
import asyncio, sys
from asyncq import Client
from fleet import step
async def add():
    async with Client(sys.argv[1], schema=sys.argv[2]) as client:
        await client.add_jobs([step.job() for _ in range(20)])
        await client.add_job(step, job_key="old")
asyncio.run(add())
"""


async def test_the_old_release_is_the_one_that_was_kept(old: Release) -> None:
    """Its code, SQL and version must not be those of the checkout."""
    (sdist,) = kept()
    done = await old.runs("asyncq", "-c", WHO)
    version, file = json.loads(done.stdout)

    assert (version_of(sdist), str(old.place / "asyncq" / "__init__.py")) == (version, file)
    assert old.sql.is_dir()


async def test_every_statement_of_the_old_release_fits_the_schema_of_this_one(
    dsn: str, schema: str, db: asyncpg.Connection, old: Release
) -> None:
    """The workers of the other tests use only some statements. Parameters and columns must match the old code."""
    here = Session(db, schema)
    for path in sorted((old.sql / "queries").rglob("*.sql")):
        text = path.read_text("utf-8")
        said = LINE_1.fullmatch(text.splitlines()[0])
        assert said
        prepared = await db.prepare(re.sub(r"\basyncq\b", schema, text))
        columns = [(column.name, column.type.oid) for column in prepared.get_attributes()]

        assert [oid for _, oid in await types(here, said["parameters"])] == [
            parameter.oid for parameter in prepared.get_parameters()
        ], path.name
        assert said["columns"] == "void" or await types(here, said["columns"]) == columns, path.name


async def test_an_old_worker_and_an_old_client_continue_with_a_migrated_schema(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The running job continues too, with earlier prepared statements and replaced functions."""
    with start_worker(old, "old") as worker:
        await worker.says("takes jobs")
        (held,) = await add(sql, 1, "hold")
        await add(sql, 20)
        await wait_for_runs(sql, 1, "began")
        await wait_for_runs(sql, 20)
        report = await apply(later(ADDITIVE), database)
        await beaten(sql)
        async with Client(database.dsn, schema=database.schema) as client:
            await client.add_jobs(steps(20))
        added = await old.runs(database.schema, "-c", ADD, database.dsn, database.schema)
        (tmp_path / "leave").touch()
        await wait_for_runs(sql, 61)
        await wait_for_runs(sql, 1, "ended")
        await wait_until_settled(sql)
        worker.signal()
        code = await worker.end()
    runs = Counter(await sql.values("select job_id from asyncq.runs where what = 'ran'"))

    assert None is re.search("does not exist|not installed", worker.log.read_text())
    assert (NEWEST + 1, 0, "") == (report.version, added.returncode, added.stderr)
    assert (0, {1}, 61) == (code, {*runs.values()}, len(runs))
    assert [old.name] == await sql.values(PLACES, held)
    assert [old.name] == await sql.values("select distinct place from asyncq.runs")


async def beaten(sql: Session) -> None:
    """Let the worker beat now, and wait for it."""
    seen = "select last_seen from asyncq._workers"
    before = await sql.value(seen)
    await sql.rows("select pg_notify($1, $2)", cancel_channel(sql.schema), TO_ALL)

    async def has_beaten() -> bool:
        return before < await sql.value(seen)

    await wait_until(has_beaten, description="a beat")


async def test_old_and_new_workers_share_jobs_and_slots_and_rescue_each_others_jobs(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker, tmp_path: Path
) -> None:
    """During a rollout both releases run: each job and each slot has one run, even if a worker dies."""
    new = later(ADDITIVE)
    await apply(new, database)
    await be_up_for_long(sql.connection, sql.schema)
    await sql.execute("""
        insert into asyncq.known_crontabs (identifier, known_since, last_execution)
        values ('tick', now() - interval '1 h', date_trunc('minute', now()) - interval '20 min')""")
    (tmp_path / "crontab").write_text("* * * * * slot ?fill=1h&id=tick\n")
    words = ("--crontab", str(tmp_path / "crontab"))
    async with Client(database.dsn, schema=database.schema) as client:
        with start_worker(old, "old", *words) as first, start_worker(new, "new", *words) as second:
            await first.says("takes jobs")
            await second.says("takes jobs")
            await client.add_jobs(steps(200))
            await wait_for_runs(sql, 200)
            await wait_until_settled(sql)
            places = [first, second]
            job = (await client.add_job(hold)).id
            began = [await wait_for_place(sql, job, 1)]
            # Whose it is dies, and the other one runs it again; then that one dies too, and another old one has it.
            places[began[0] == new.name].process.kill()
            began.append(await wait_for_place(sql, job, 2))
            with start_worker({old.name: old, new.name: new}[began[0]], "third", *words) as third:
                await third.says("takes jobs")
                places[began[1] == new.name].process.kill()
                began.append(await wait_for_place(sql, job, 3))
                (tmp_path / "leave").touch()
                await wait_until_settled(sql)
    steps_run = Counter(await sql.values("select job_id from asyncq.runs where what = 'ran'"))
    slots = Counter(await sql.values("select what from asyncq.runs where what like '2%'"))

    assert ({1}, 200, {1}, True) == ({*steps_run.values()}, len(steps_run), {*slots.values()}, len(slots) >= 20)
    assert [began[0], *sorted({old.name, new.name} - {began[0]}), began[0]] == began


async def test_the_new_release_on_the_schema_of_the_old_one_names_the_command(
    database: Database, sql: Session, later: Later, start_worker: StartWorker
) -> None:
    """A rollout before the migration fails at the first process, and changes nothing."""
    new = later(ADDITIVE)
    target = ("--dsn", database.dsn, "--schema", database.schema)
    with start_worker(new, "new") as worker:
        added = await new.runs(database.schema, "-m", "asyncq", "add", "step", *target)
        code = await worker.end()
    said = f"{NEWEST + 1:06}_later; run `asyncq migrate --schema {database.schema}`"

    assert (3, 3) == (code, added.returncode)
    assert said in worker.log.read_text()
    assert said in added.stderr
    assert [] == await sql.values("select id from asyncq.jobs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asyncq.store.migrate.texts", new.texts)
        with pytest.raises(SchemaMissing, match=said):
            await Client(database.dsn, schema=database.schema).open()


async def test_two_that_migrate_at_once_beside_a_worker_both_succeed(
    database: Database, sql: Session, old: Release, later: Later, start_worker: StartWorker
) -> None:
    """All machines of a deployment do so, and one of them does the work."""
    new = later(ADDITIVE)
    words = ("-m", "asyncq", "migrate", "--json", "--dsn", database.dsn, "--schema", database.schema)
    with start_worker(old, "old") as worker:
        await worker.says("takes jobs")
        await add(sql, 10)
        done = await asyncio.gather(*(new.runs(database.schema, *words) for _ in range(2)))
        await add(sql, 10)
        await wait_for_runs(sql, 20)
        await wait_until_settled(sql)
    applied = sorted(json.loads(each.stdout)["applied"] for each in done)

    assert [0, 0] == [each.returncode for each in done]
    assert ([], f"{NEWEST + 1:06}_later") == (applied[0], applied[1][-1])

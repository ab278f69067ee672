"""The schema moves, by a dump under another owner or by logical replication, and its jobs run there."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from asyncq import Client, Worker, task
from asyncq.domain.events import JobCompleted, JobsRescued
from asyncq.server import Server
from asyncq.server.binaries import find_binaries
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from tests.support.outages import connected, own_server
from tests.support.seen import Seen

# A worker that has died long before, with one of the two jobs in hand.
DIED = """
with worker as (
  insert into asyncq._workers (lease, pid, concurrency, host, tasks, last_seen)
  values ('1 s', 1, 1, 'h', '{tally}', now() - interval '1 h') returning id),
count as (
  insert into asyncq._partitions (id, key, running) select partition, queue, 1 from asyncq._jobs where queue = 'q')
update asyncq._jobs set locked_by = worker.id, locked_at = now(), lock_token = 1 from worker where queue = 'q'
"""
BRING = """
select format('select setval(%L, %s);', schemaname || '.' || sequencename, last_value)
from pg_sequences where schemaname = 'asyncq' and last_value is not null"""


@task
async def tally(number: int) -> None:
    """A job to be moved."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with a second database, `moved`, in which a role `mover` may create schemas."""
    if not (find_binaries().bindir / "pg_dump").exists():
        pytest.skip("this PostgreSQL comes without pg_dump")
    with own_server({"wal_level": "logical"}) as started:
        yield started


def of(server: Server, role: str, name: str) -> str:
    """A DSN of that server."""
    return server.dsn.replace("//postgres@/postgres", f"//{role}@/{name}")


async def prepare(server: Server) -> None:
    """Add jobs of all kinds: one has ended, and one is claimed by a dead worker."""
    async with connected(server.dsn) as db:
        await migrate(Database(server.dsn, "asyncq"))
        await db.execute("create role mover login createdb")
        await db.execute("create database moved owner mover template template0 encoding 'UTF8'")
        async with Client(server.dsn) as client:
            await client.add_job(tally.job(number=1), idempotency_key="ended")
            await Worker(server.dsn, [tally], listen=False).run_once()
            await client.add_job(tally.job(number=2), queue="q")
            await client.add_job(tally.job(number=3), job_key="k")
        await db.execute(DIED)


async def check(dsn: str, seen: Seen) -> None:
    """Check that the moved data is complete, and that jobs run."""
    async with Client(dsn) as client:
        assert [] == list((await client.admin.checkup()).violations)
        again = await client.add_job(tally.job(number=1), idempotency_key="ended")
        updated = await client.add_job(tally.job(number=4), job_key="k")
        added = await client.add_job(tally.job(number=5))
        async with Worker(dsn, [tally], observers=[seen]).start():
            await seen.wait_for(JobCompleted, 3)
        checkup = await client.admin.checkup()

    assert ("deduplicated", "updated", "added") == (again.outcome, updated.outcome, added.outcome)
    assert (again.id + 1, again.id + 2, again.id + 3) == (*sorted(seen.ids(JobCompleted))[:2], added.id)
    assert [again.id + 1] == [id for event in seen.of(JobsRescued) for id in event.job_ids]
    assert checkup.is_healthy


@pytest.fixture
def seen() -> Seen:
    """Keeps the events of the worker on the new place."""
    return Seen()


async def test_a_dump_is_restored_under_another_owner(server: Server, seen: Seen, tmp_path: Path) -> None:
    """It includes the rows of former workers, and the sequences."""
    await prepare(server)
    tools, dump = server.binaries.bindir, tmp_path / "dump"
    where = ["-h", str(server.folder), "-p", "5432"]
    steps = [
        [tools / "pg_dump", *where, "-U", "postgres", "-Fc", "--schema=asyncq", "-f", dump, "postgres"],
        [tools / "pg_restore", *where, "-U", "mover", "--exit-on-error", "--no-owner", "-d", "moved", dump],
    ]
    for step in steps:
        await anyio.run_process([os.fspath(word) for word in step], stderr=subprocess.STDOUT)
    report = await migrate(Database(of(server, "mover", "moved"), "asyncq"))

    assert () == report.applied
    await check(of(server, "mover", "moved"), seen)


async def test_the_tables_are_replicated_to_another_place_and_the_sequences_brought(server: Server, seen: Seen) -> None:
    """The guide describes the steps. Without the sequences `doctor` reports it."""
    await prepare(server)
    dsn = of(server, "postgres", "moved")
    await migrate(Database(dsn, "asyncq"))
    async with connected(server.dsn) as old, connected(dsn) as new:
        await new.execute("truncate asyncq._migrations, asyncq._limits")
        await old.execute("create publication p for all tables")
        for row in await old.fetch("select tablename from pg_tables where schemaname = 'asyncq'"):
            await old.execute(f"delete from asyncq.{row[0]} where false")  # Refused without a replica identity.
        await old.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")
        await new.execute(
            f"create subscription s connection 'host={server.folder} port=5432 user=postgres dbname=postgres' "
            "publication p with (create_slot = false)"
        )
        while await new.fetchval("select count(*) from pg_subscription_rel where srsubstate <> 'r'"):
            await anyio.sleep(0.05)
        await new.execute("drop subscription s")
        async with Client(dsn) as client:
            broken = {violation.law for violation in (await client.admin.checkup()).violations}
        # As one script, in the way in which psql writes the rows.
        await new.execute("\n".join(row[0] for row in await old.fetch(BRING)))

    assert {"id_not_given"} == broken
    await check(dsn, seen)

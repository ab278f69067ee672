"""Reading from a real streaming standby: administration works there, and the lease alone decides."""

from collections.abc import Iterator

import anyio.to_thread
import pytest

from asyncq import Client, JobState
from asyncq.server import find_binaries
from asyncq.store.database import Database, hang_up
from tests.crash.standby import Pair, has_pg_basebackup, streaming_pair
from tests.support.cli import asyncq
from tests.support.session import session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not has_pg_basebackup(find_binaries().bindir), reason="these server binaries come without pg_basebackup"
)

READING = (
    ("workers", "ls"),
    ("doctor",),
    ("jobs", "counts"),
    ("jobs", "explain", "1"),
    ("jobs", "ls"),
    ("jobs", "show", "1"),
    ("cron", "ls"),
    ("migrate", "--check"),
)

WORKERS = """
insert into asyncq._workers (lease, pid, concurrency, host, tasks, locks, last_seen, doubted_at) values
  ('1 hour', 1, 1, 'doubted', '{}', true, now(), now() - interval '1 minute'),
  ('1 hour', 1, 1, 'well', '{}', true, now(), null),
  ('1 second', 1, 1, 'silent', '{}', true, now() - interval '1 minute', now() - interval '1 minute')
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary and a standby that follows it."""
    with streaming_pair() as made:
        yield made


@pytest.fixture(scope="module")
async def standby(pair: Pair) -> str:
    """The standby of a server with a job and three workers: one is live, one in doubt, one silent."""
    await Client(pair.primary.dsn).migrate()
    async with Client(pair.primary.dsn) as client:
        await client.add_job("t")
    async with session(pair.primary.dsn, "asyncq") as primary, session(pair.standby.dsn, "asyncq") as copy:
        await primary.execute(WORKERS)

        async def has_all() -> bool:
            return await copy.value("select to_regclass('asyncq._workers') is not null") and 3 == await copy.value(
                "select count(*) from asyncq._workers"
            )

        await wait_until(has_all, description="the standby to have the workers")
    return pair.standby.dsn


async def test_on_a_standby_the_lease_alone_decides_whether_a_worker_lives(standby: str) -> None:
    """It keeps none of the primary's locks, and cannot read when the primary began to keep them."""
    async with Client(standby) as client:
        workers = {worker.host: worker.state for worker in await client.admin.list_workers()}

    assert {"doubted": "doubted", "well": "live", "silent": "dead"} == workers


async def test_a_standby_answers_all_calls_that_change_nothing(standby: str) -> None:
    """Readers use a replica to spare the primary."""
    async with Client(standby) as client:
        (job,) = (await client.admin.find_jobs(newest=False)).jobs
        checkup = await client.admin.checkup()
        counts = await client.admin.counts()
        explanation = await client.admin.explain(job.id)

    assert (True, 2, 1, ()) == (checkup.in_recovery, checkup.live, checkup.gone, checkup.violations)
    assert (1, JobState.AVAILABLE) == (counts.available, job.state)
    assert job.id == explanation.job_id


async def test_a_standby_reads_a_running_job_without_its_progress(pair: Pair, standby: str) -> None:
    """It has no unlogged tables; the job itself must be readable there."""
    async with session(pair.primary.dsn, "asyncq") as primary, session(standby, "asyncq") as copy:
        job = await primary.value("select id from asyncq.add_job('running')")
        await primary.rows(
            "update asyncq._jobs set locked_at = now(), lock_token = 1, locked_by = 1 where id = $1", job
        )
        query = "select count(*) from asyncq._jobs where id = $1 and locked_by is not null"
        try:
            await wait_until(lambda: copy.value(query, job), description="the standby to have the claim")
            async with Client(standby) as client:
                found = await client.get_job(job)
        finally:
            await primary.rows("delete from asyncq._jobs where id = $1", job)
        await wait_until(
            lambda: copy.value("select not exists (select from asyncq._jobs where id = $1)", job),
            description="the standby to have the deletion",
        )

    assert (JobState.ACTIVE, None) == (found.state, found.progress)


@pytest.mark.parametrize("words", READING)
async def test_the_command_line_reads_from_a_standby(standby: str, words: tuple[str, ...]) -> None:
    """The exit code 1 of doctor means a finding; 3 would mean that it could not check."""
    done = await asyncq(*words, DATABASE_URL=standby)

    assert (done.returncode in (0, 1), "") == (True, done.stderr)


async def test_a_standby_is_not_tried_first_unless_it_was_requested(pair: Pair, standby: str) -> None:
    """Without target_session_attrs the order of the DSN counts. Otherwise all would stay on it after a failover."""
    any_of_both = pair.dsn.replace("&target_session_attrs=read-write", "")
    database = Database(any_of_both, "asyncq")
    await anyio.to_thread.run_sync(pair.primary.kill)
    first = await database.connect("test")
    in_recovery = first.get_settings().in_hot_standby
    await hang_up(first)
    await anyio.to_thread.run_sync(pair.primary.restart)
    second = await database.connect("test")
    again = second.get_settings().in_hot_standby
    await hang_up(second)

    assert ("on", "off") == (in_recovery, again)


@pytest.mark.parametrize(("wanted", "is_standby"), [("prefer-standby", True), ("standby", True), ("primary", False)])
async def test_several_hosts_are_chosen_by_the_kind_of_server_that_is_wanted(
    pair: Pair, standby: str, wanted: str, is_standby: bool
) -> None:
    """Each host is tried on its own, but prefer-standby considers all of them."""
    database = Database(pair.dsn.replace("read-write", wanted), "asyncq")
    for _ in range(2):
        connection = await database.connect("test")
        found = await connection.fetchval("select pg_is_in_recovery()")
        await hang_up(connection)

        assert is_standby == found


async def test_a_primary_is_used_if_a_standby_is_preferred_and_there_is_none(pair: Pair, standby: str) -> None:
    """prefer-standby is only a preference."""
    folder = str(pair.primary.folder)
    database = Database(
        f"postgresql://postgres@/postgres?host={folder},{folder}&port=5432,5432&target_session_attrs=prefer-standby",
        "s",
    )
    connection = await database.connect("test")
    found = await connection.fetchval("select pg_is_in_recovery()")
    await hang_up(connection)

    assert not found

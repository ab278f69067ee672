"""The state that survives when the primary dies and a streaming standby is promoted."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import anyio.to_thread
import asyncpg
import pytest

from asyncq import Client, JobSpec, StoreError, task
from asyncq.domain.events import JobCompleted, JobsRescued, JobStarted, LeaseInDoubt
from asyncq.server import find_binaries
from asyncq.testing import make_worker
from tests.crash.standby import Pair, has_pg_basebackup, streaming_pair
from tests.support.bad_hosts import with_hosts
from tests.support.faults import link_to
from tests.support.seen import Seen
from tests.support.session import session
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not has_pg_basebackup(find_binaries().bindir), reason="these server binaries come without pg_basebackup"
    ),
]


LEASE_S = 3.0
LATER_S = 2.5


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    """The pair of servers that the tests of this file share; each test rebuilds the standby."""
    with streaming_pair() as pair:
        yield pair


@pytest.fixture
async def pair(servers: Pair) -> Pair:
    """A primary with an installed schema, and a standby that follows it, asynchronously."""
    await anyio.to_thread.run_sync(servers.primary.restart)
    await servers.synchronous(on=False)
    await Client(servers.primary.dsn).migrate()
    connection = await asyncpg.connect(servers.primary.dsn)
    await connection.execute(
        "truncate asyncq._jobs, asyncq._partitions, asyncq._wakeups, asyncq._handoff_slots, asyncq._workers"
    )
    await connection.close()
    await anyio.to_thread.run_sync(servers.follow)
    return servers


async def streams(pair: Pair) -> bool:
    """Whether the standby has received everything."""
    connection = await asyncpg.connect(pair.primary.dsn)
    try:
        return bool(
            await connection.fetchval("""
            select count(*) = 1 and bool_and(replay_lsn >= pg_current_wal_lsn())
            from pg_stat_replication where state = 'streaming'""")
        )
    finally:
        await connection.close()


async def caught_up(pair: Pair) -> None:
    """Wait until the standby has all that the primary has."""
    await wait_until(lambda: streams(pair), description="the standby to catch up")


async def fail_over(pair: Pair) -> None:
    """Kill the primary, and make the standby one."""
    await anyio.to_thread.run_sync(pair.primary.kill)
    await pair.promote()


async def test_with_a_synchronous_standby_nothing_that_was_committed_is_lost(pair: Pair) -> None:
    """The primary dies under load. Client and worker switch to the new one, with waiting and running jobs."""
    ran: set[int] = set()
    committed: set[int] = set()

    @task
    async def note(number: int) -> None:
        ran.add(number)
        await asyncio.sleep(0.005)

    async def add_for_ever() -> None:
        for number in itertools.count():
            try:
                await client.add_job(note.job(number))
            except StoreError:
                # Whether this one was committed is not known: it may run or not.
                await asyncio.sleep(0.02)
            else:
                committed.add(number)

    await caught_up(pair)
    await pair.synchronous(on=True)
    async with Client(pair.dsn) as client, make_worker(pair.dsn, [note]).start():
        async with anyio.create_task_group() as group:
            group.start_soon(add_for_ever)
            await wait_until(lambda: len(committed) > 200, description="load")
            await fail_over(pair)
            before = len(committed)
            await wait_until(lambda: len(committed) > before + 100, description="load on the new primary", limit_s=30)
            group.cancel_scope.cancel()
        await wait_until(lambda: committed <= ran, description="every committed job to run", limit_s=30)
        counts = await client.admin.counts()

    assert (0, True) == (counts.discarded, len(ran) < len(committed) + 20)


async def test_clients_and_workers_pass_a_frozen_primary_and_reach_the_new_one(pair: Pair) -> None:
    """The primary accepts connections but never answers. Each acknowledged job runs exactly once."""
    ran: Counter[int] = Counter()

    @task
    async def note(number: int) -> None:
        ran[number] += 1

    async def add(number: int) -> None:
        while True:
            with suppress(TimeoutError, StoreError):
                # A call over a silent link has no time limit of its own.
                async with asyncio.timeout(1.0):
                    await client.add_job(note.job(number), idempotency_key=f"note {number}")
                    return

    await caught_up(pair)
    await pair.synchronous(on=True)
    try:
        async with Client(pair.dsn) as client, make_worker(pair.dsn, [note], listen_dsn=pair.dsn).start():
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(add(number))
            await wait_until(lambda: len(ran) == 20, description="the first jobs to run")
            pair.freeze()
            await pair.promote()
            async with asyncio.timeout(25), asyncio.TaskGroup() as group:
                for number in range(20, 40):
                    group.create_task(add(number))
            await wait_until(lambda: len(ran) == 40, description="the jobs of the new primary to run", limit_s=25)
            await wait_until(lambda: is_empty(client), description="all jobs to be settled", limit_s=25)
    finally:
        await anyio.to_thread.run_sync(pair.primary.kill)

    assert dict.fromkeys(range(40), 1) == dict(ran)


async def is_empty(client: Client) -> bool:
    """Whether no job waits or runs."""
    with suppress(StoreError):
        counts = await client.admin.counts()
        return counts.active == counts.available == counts.retryable == 0
    return False


async def test_jobs_that_ended_before_a_late_promotion_do_not_run_again(pair: Pair) -> None:
    """The first worker that returns must not take the jobs of one that returns seconds later with their results."""
    finished: Counter[int] = Counter()
    late, early, primary_died = Seen(), Seen(), asyncio.Event()

    @task
    async def note(number: int) -> None:
        await primary_died.wait()
        finished[number] += 1

    await caught_up(pair)
    await pair.synchronous(on=True)
    async with link_to(pair.standby.dsn) as link, Client(pair.dsn) as client:
        link.refuse("")
        # Its second host is the standby by way of the link.
        detour = with_hosts(link.dsn, before=[0]).replace("host=127.0.0.1,", f"host={pair.primary.folder},")
        detour = detour.replace("port=0,", "port=5432,")
        async with make_worker(detour, [note], lease=LEASE_S, concurrency=5, observers=[late]).start():
            await client.add_jobs([note.job(number) for number in range(5)])
            await late.wait_for(JobStarted, 5)
            async with make_worker(pair.dsn, [note], lease=LEASE_S, observers=[early]).start():
                await anyio.to_thread.run_sync(pair.primary.kill)
                primary_died.set()
                await late.wait_for(LeaseInDoubt, limit_s=30)
                await pair.promote()
                await add_when_it_can(client, note.job(5))
                await early.wait_for(JobCompleted, limit_s=30)
                # The delay after which the other worker returns; meanwhile the early one looks for dead workers.
                await asyncio.sleep(LATER_S)
                link.mend()
                await wait_until(lambda: is_empty(client), description="all jobs to be settled", limit_s=30)

    assert dict.fromkeys(range(6), 1) == dict(finished)
    assert [] == [event for event in early.of(JobsRescued) if event.job_ids]


async def add_when_it_can(client: Client, job: JobSpec) -> None:
    """Add a job as soon as a server takes it."""

    async def is_added() -> bool:
        with suppress(StoreError):
            await client.add_job(job, idempotency_key="once")
            return True
        return False

    await wait_until(is_added, description="a server that takes jobs", limit_s=30)


async def test_a_standby_does_not_report_the_outcome_of_a_transaction(pair: Pair) -> None:
    """The standby may not have received the commit yet. The worker would record a lost commit as a failure."""
    await caught_up(pair)
    async with session(pair.standby.dsn, "asyncq") as standby, session(pair.primary.dsn, "asyncq") as primary:
        xid = await primary.value("select pg_current_xact_id()::text")
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="cannot tell"):
            await standby.run("commit_status", 1, 1, 1, xid)


async def test_with_an_asynchronous_standby_the_last_commits_can_be_lost(pair: Pair) -> None:
    """The standby lacks the last commits: jobs added by them are lost, jobs completed by them run again."""
    ran: list[str] = []

    @task
    async def note(name: str) -> None:
        ran.append(name)

    async with Client(pair.dsn) as client:
        await client.add_job(note.job("done"))
        await caught_up(pair)
        await anyio.to_thread.run_sync(pair.standby.kill)
        await client.add_job(note.job("lost"))
        async with make_worker(pair.dsn, [note]).start():
            await wait_until(lambda: len(ran) == 2, description="both to run")
        await client.add_job(note.job("also lost"))
    await anyio.to_thread.run_sync(pair.primary.kill)
    await anyio.to_thread.run_sync(pair.standby.restart)
    await pair.promote()
    ran.clear()
    async with Client(pair.dsn) as client:
        await make_worker(pair.dsn, [note]).run_once()
        checkup = await client.admin.checkup()

    assert (["done"], True) == (ran, checkup.is_healthy)


async def test_the_error_of_a_standby_that_refuses_adds_names_the_reason(pair: Pair) -> None:
    """The DSN leads to the standby alone."""
    await caught_up(pair)
    async with Client(pair.standby.dsn) as client:
        with pytest.raises(StoreError, match="read only"):
            await client.add_job("t")
        checkup = await client.admin.checkup()

    assert ["it is a standby or in recovery: no job can be added, and none can run"] == [
        finding.said for finding in checkup.findings if finding.level == "problem"
    ]

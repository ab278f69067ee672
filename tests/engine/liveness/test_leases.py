"""Leases: the jobs of a dead worker run again soon, and those of a living one never twice at once."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, JobContext, JobState, Task, Worker, task
from asyncq.domain.events import (
    HeartbeatFailed,
    JobCompleted,
    JobInterrupted,
    JobLost,
    JobsRescued,
    JobsReturned,
    JobStarted,
    LeaseInDoubt,
    ListenLost,
    WorkerLost,
)
from asyncq.engine.base.lease import HALF_GRACE_S
from asyncq.engine.liveness import fallback_heartbeat, heartbeat, heartbeat_thread, lease_state
from asyncq.server import start
from asyncq.store.heartbeat_connection import HeartbeatConnection
from asyncq.store.listen import cancel_channel
from asyncq.store.statements import render
from tests.engine.conftest import MakeWorker
from tests.engine.test_shutdown import ROOT, Program
from tests.support import lease_program
from tests.support.alone import Alone
from tests.support.disk import roomy_folder
from tests.support.faults import Link, link_to, terminate
from tests.support.locks import be_up_for_long
from tests.support.roles import three_roles
from tests.support.seen import Seen
from tests.support.waiting import wait_until

TERMINATE = """
select pg_terminate_backend(pid) from pg_stat_activity where usename = $1 and application_name = any($2)
"""
JUST_RETURNED = """
create or replace function asyncq._locks_since() returns timestamptz language sql volatile
as $$ select clock_timestamp() $$
"""
ROLES = ("heartbeat", "fetch", "listen", "settle", "handlers")


class Held:
    """A task whose handlers run until they may leave, each alone with its job."""

    def __init__(self, folder: Path) -> None:
        self.alone = Alone(folder)
        self.leave = asyncio.Event()

    @property
    def task(self) -> Task[...]:
        """The task, called `hold`."""

        @task
        async def hold(ctx: JobContext) -> None:
            with self.alone.run(ctx.job.id, ctx.job.locked_by):
                await self.leave.wait()

        return hold


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """A task whose handlers run until they may leave."""
    return Held(tmp_path)


@pytest.fixture
def other() -> Seen:
    """Keeps the events of a second worker."""
    return Seen()


@pytest.fixture
async def old_server(db: asyncpg.Connection, schema: str) -> None:
    """For the locks of this schema the server has been up for long, so a free one counts at once."""
    await be_up_for_long(db, schema)


@asynccontextmanager
async def process(dsn: str, schema: str, *, lease: float = 30, listen: bool = True) -> AsyncIterator[Program]:
    """A worker in a process of its own, killed at the end if it still runs."""
    words = ["-m", "tests.support.lease_program", dsn, schema, str(lease), "listen" if listen else "poll"]
    started = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE, cwd=ROOT)
    try:
        yield Program(started)
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


def cut_off(link: Link) -> None:
    """Nothing passes through a link any more: all connections end, and no new one is let in."""
    for role in ROLES:
        link.refuse(role)


async def row_of(db: asyncpg.Connection, schema: str) -> asyncpg.Record:
    """The row of the first worker."""
    row = await db.fetchrow(f"select locks, doubted_at, last_seen from {schema}._workers order by id limit 1")
    assert row is not None
    return row


async def wait_for_row(db: asyncpg.Connection, schema: str, *, locks: bool) -> None:
    """Wait until the first worker's row says whether its lock counts."""

    async def says_so() -> bool:
        row = await row_of(db, schema)
        return row["locks"] is locks and row["doubted_at"] is None

    await wait_until(says_so, description=f"locks = {locks}")


# Processes that die


@pytest.mark.usefixtures("old_server")
@pytest.mark.parametrize("is_named", [False, True])
async def test_the_job_of_a_killed_process_runs_again_although_its_lease_is_not_over(
    dsn: str,
    schema: str,
    client: Client,
    make_worker: MakeWorker,
    seen: Seen,
    db: asyncpg.Connection,
    is_named: bool,
) -> None:
    """The server releases the lock of a dead process. The other workers notice that, and wait for a second.

    The attempt counts only if a beat has named the job. With this lease no beat is due by itself, once the row says
    that the lock counts. But a worker that listens beats when its LISTEN connection is open, and on request.
    """
    workers = f"{schema}._workers"
    async with process(dsn, schema, lease=3600, listen=is_named) as victim:
        is_locked = f"select coalesce(bool_and(locks), false) from {workers}"
        await wait_until(lambda: db.fetchval(is_locked), description="the lock of the process")
        added = await client.add_job("hold", {"how": "for ever"})
        await victim.says(f"started {added.id}")
        was_read = asyncio.Event()
        if is_named:
            await db.execute(f"select pg_notify($1, id || ' {added.id} 0') from {workers}", cancel_channel(schema))
            was_named = f"select cardinality(started_claims) = 1 from {workers}"
            await wait_until(lambda: db.fetchval(was_named), description="a beat that names the job")

        @task
        async def hold(how: str) -> None:
            """Run well this time, once its row was read."""
            await was_read.wait()

        async with make_worker(hold, lease=30).start():
            victim.process.kill()
            rescued = await seen.wait_for(JobsRescued)
            error = (await client.get_job(added.id)).last_error
            was_read.set()
            await seen.wait_for(JobCompleted)

    spared = () if is_named else (added.id,)
    assert ((added.id,), (), spared) == (rescued.job_ids, rescued.discarded_job_ids, rescued.spared_job_ids)
    assert error is not None
    assert error.startswith(f"WorkerLost: worker {rescued.worker_ids[0]} has died, or lost every connection")
    assert [2 if is_named else 1] == [event.attempt for event in seen.of(JobStarted)]


@pytest.mark.usefixtures("old_server")
async def test_a_job_that_kills_its_worker_each_time_is_discarded(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """It must not be retried for ever, and kill the whole fleet. After its first death it is named before it starts."""
    added = await client.add_job("hold", {"how": "kill"}, max_attempts=2)
    async with make_worker(lease=30).start():
        for death in (1, 2, 3):
            async with process(dsn, schema) as victim:
                await victim.process.wait()
                rescued = await seen.wait_for(JobsRescued, death)
        job = await client.get_job(added.id)

    assert ((added.id,), JobState.DISCARDED, 2) == (rescued.discarded_job_ids, job.state, job.attempts)


@pytest.mark.leaves_something
async def test_a_stalled_process_notices_and_settles_nothing_that_it_no_longer_holds(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """A machine that slept or swapped is like this: another worker has long run its job."""
    done: list[str] = []

    @task
    async def hold(how: str) -> None:
        done.append(how)

    async with process(dsn, schema, lease=1) as stalled:
        added = await client.add_job("hold", {"how": "for ever"})
        await stalled.says(f"started {added.id}")
        named = f"select started_claims <> '{{}}' from {schema}._workers"
        await wait_until(lambda: db.fetchval(named), description="the beat that names the job")
        stalled.process.send_signal(signal.SIGSTOP)
        async with make_worker(hold, lease=1).start():
            await seen.wait_for(JobCompleted)
            second = await client.add_job("hold", {"how": "by the other one"})
            await seen.wait_for(JobCompleted, 2)
            stalled.process.send_signal(signal.SIGCONT)
            await stalled.says(f"cancelled {added.id}", "event WorkerLost", "event JobLost")

    assert (["for ever", "by the other one"], [added.id, second.id]) == (done, seen.ids(JobCompleted))
    assert [2, 1] == [event.attempt for event in seen.of(JobStarted)]


@pytest.mark.leaves_something
@pytest.mark.usefixtures("old_server")
async def test_a_job_handed_to_a_stalled_process_does_not_start_there_after_its_rescue(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """Its LISTEN connection has ended too. After the pause it finds only the notification of the job."""
    done: list[str] = []

    @task
    async def hold(how: str) -> None:
        done.append(how)

    async with process(dsn, schema) as stalled:
        offered = f"select count(*) = 1 from {schema}._handoff_slots where token is not null"
        await wait_until(lambda: db.fetchval(offered), description="a slot")
        stalled.process.send_signal(signal.SIGSTOP)
        added = await client.add_job("hold", {"how": "by the other one"})
        handed = await db.fetchval(f"select locked_by is not null from {schema}._all_jobs()")
        ended = [await terminate(db, schema, role) for role in ("listen", "heartbeat")]
        async with make_worker(hold).start():
            await seen.wait_for(JobCompleted)
            stalled.process.send_signal(signal.SIGCONT)
            await stalled.says("event WorkerLost")

    assert (True, [1, 1], ["by the other one"]) == (handed, ended, done)
    assert not {f"started {added.id}", "event JobStarted"} & {*stalled.lines}


@pytest.mark.leaves_something
@pytest.mark.usefixtures("old_server")
async def test_claims_in_the_buffer_of_a_stopped_process_do_not_start_there_after_its_rescue(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection
) -> None:
    """The event loop continues before the heartbeat can notice that its connection has ended."""

    @task
    async def hold(how: str) -> None:
        """Run well."""

    ways = [*["end"] * 200, "stop", *["end"] * 200]
    jobs = [job.id for job in await client.add_jobs([hold.job(how) for how in ways])]
    last = f"started {jobs[200]}"
    async with process(dsn, schema) as stopped:
        await stopped.says(last)
        # The process may have stopped while its next fetch was on its way to the server.
        claimed = f"select count(*) > 0 from {schema}._all_jobs() where locked_by is not null and id > $1"
        await wait_until(lambda: db.fetchval(claimed, jobs[200]), description="claims in the buffer")
        assert 1 == await terminate(db, schema, "heartbeat")
        async with make_worker(hold).start():
            await wait_until(
                lambda: db.fetchval(f"select count(*) = 0 from {schema}._all_jobs()"), description="the other's jobs"
            )
            stopped.process.send_signal(signal.SIGCONT)
            await stopped.says("event WorkerLost")

    assert last == [line for line in stopped.lines if line.startswith("started")][-1]


@pytest.mark.leaves_something
@pytest.mark.usefixtures("old_server")
async def test_claims_in_the_buffer_of_a_stopped_process_start_there_if_nobody_took_over(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """The answer to its next beat shows that it is alive. No run is lost, and each job runs once."""
    ways = [*["end"] * 200, "stop", *["end"] * 200]
    jobs = [job.id for job in await client.add_jobs([lease_program.hold.job(how) for how in ways])]
    async with process(dsn, schema) as stopped:
        await stopped.says(f"started {jobs[200]}")
        # A shorter pause needs no beat. The clock of another process cannot be moved.
        await asyncio.sleep(1.2 * HALF_GRACE_S)
        stopped.process.send_signal(signal.SIGCONT)
        await wait_until(lambda: db.fetchval(f"select count(*) = 0 from {schema}._all_jobs()"), description="all jobs")
        stopped.process.terminate()
        await stopped.process.wait()
        await stopped.says("event WorkerStopped")
    started = [line for line in stopped.lines if line.startswith("started")]

    assert sorted(started) == sorted(f"started {job}" for job in jobs)
    assert not {"event JobLost", "event JobInterrupted", "event WorkerLost"} & {*stopped.lines}


async def test_a_doubt_from_before_the_server_returned_does_not_hurry_the_checks(
    schema: str, make_worker: MakeWorker, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its grace is over, but so soon after the return nobody is dead. An immediate check would find the same."""
    looks, watch = list[float](), HeartbeatConnection.watch

    async def note(line: HeartbeatConnection, worker_id: int) -> Any:
        looks.append(asyncio.get_running_loop().time())
        return await watch(line, worker_id)

    monkeypatch.setattr(HeartbeatConnection, "watch", note)
    await db.execute(render(JUST_RETURNED, schema))
    doubted = "(lease, pid, concurrency, host, tasks, locks, doubted_at)"
    values = "('30 s', 1, 1, 'h', '{}', true, clock_timestamp() - interval '5 s')"
    await db.execute(f"insert into {schema}._workers {doubted} values {values}")
    async with make_worker().start():
        await wait_until(lambda: len(looks) >= 3, description="three looks")
    await db.execute(f"delete from {schema}._workers")

    assert looks[2] - looks[1] > 0.1


# Connections that end


@pytest.mark.usefixtures("old_server")
async def test_a_worker_that_is_cut_off_cancels_its_jobs_before_another_one_runs_them(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, other: Seen, held: Held
) -> None:
    """It has half of the grace; the others wait for all of it."""
    async with link_to(dsn) as link, Worker(link.dsn, [held.task], schema=schema, observers=[other]).start():
        added = await client.add_job("hold")
        await other.wait_for(JobStarted)
        async with make_worker(held.task).start():
            cut_off(link)
            await seen.wait_for(JobStarted)
            doubted = len(other.of(LeaseInDoubt))
            link.mend()
            await other.wait_for(WorkerLost)
            held.leave.set()
            await seen.wait_for(JobCompleted)
            await other.wait_for(JobLost)

    assert (1, [added.id]) == (doubted, seen.ids(JobCompleted))
    assert ["start", "end", "start", "end"] == [line.partition(" ")[0] for line in held.alone.log]


@pytest.mark.usefixtures("old_server")
async def test_a_worker_that_lost_every_connection_and_comes_back_at_once_keeps_its_jobs(
    schema: str, client: Client, make_worker: MakeWorker, seen: Seen, other: Seen, held: Held, db: asyncpg.Connection
) -> None:
    """A pooler was restarted, an address failed over, or an administrator ended the connections."""
    async with make_worker(held.task, observers=[other]).start():
        added = await client.add_job("hold")
        await other.wait_for(JobStarted)
        async with make_worker(held.task).start():
            for _ in range(3):
                before = (await row_of(db, schema))["last_seen"]
                for role in ROLES:
                    await terminate(db, schema, role)

                async def is_back(before: object = before) -> bool:
                    row = await row_of(db, schema)
                    return row["last_seen"] > before and row["locks"] and row["doubted_at"] is None

                await wait_until(is_back, description="the worker to be back")
            held.leave.set()
            await seen.wait_for(JobCompleted)

    assert ([], [], []) == (seen.of(LeaseInDoubt), seen.of(JobsRescued), seen.of(WorkerLost))
    assert [f"start {added.id} 1", f"end {added.id} 1"] == held.alone.log


@pytest.mark.usefixtures("old_server")
async def test_a_worker_that_lost_the_connection_of_its_lock_beats_over_another_one(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, held: Held, db: asyncpg.Connection
) -> None:
    """Then only its lease counts. The lock counts again with its connection."""
    async with link_to(dsn) as link, Worker(link.dsn, [held.task], schema=schema, observers=[seen]).start():
        await client.add_job("hold")
        await seen.wait_for(JobStarted)
        async with make_worker(held.task).start():
            link.refuse("heartbeat")
            await wait_for_row(db, schema, locks=False)
            # Longer than half of the grace: it would have cancelled its jobs by now.
            await seen.wait_for(HeartbeatFailed, 2)
            link.mend()
            await wait_for_row(db, schema, locks=True)
            held.leave.set()
            await seen.wait_for(JobCompleted)

    assert ([], [], []) == (seen.of(LeaseInDoubt), seen.of(JobsRescued), held.alone.overlaps)


@pytest.mark.usefixtures("old_server")
async def test_a_connection_that_does_not_answer_is_closed_only_when_the_row_says_that_no_lock_counts(
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    make_worker: MakeWorker,
    held: Held,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server frees the lock when the half-open connection ends, and another connection may not work either."""
    steps: list[str] = []
    drop, stand_in_beat = HeartbeatConnection.drop, fallback_heartbeat.beat

    def note_drop(line: HeartbeatConnection) -> None:
        if line.is_open:
            steps.append("ended")
        drop(line)

    async def note_beat(*args: Any) -> Any:
        if steps:  # Asked for again meanwhile: the first one has to do.
            await wait_until(lambda: "ended" in steps, description="the connection to be ended")
        answer = await stand_in_beat(*args)
        steps.append("written")
        return answer

    monkeypatch.setattr(HeartbeatConnection, "drop", note_drop)
    monkeypatch.setattr(fallback_heartbeat, "beat", note_beat)
    async with link_to(dsn) as link, Worker(link.dsn, [held.task], schema=schema, observers=[seen], lease=3).start():
        await client.add_job("hold")
        await seen.wait_for(JobStarted)
        async with make_worker(held.task).start():
            link.freeze("heartbeat")
            await seen.wait_for(HeartbeatFailed)
            await wait_for_row(db, schema, locks=False)
            # To mend the link cuts the connection, and then nothing is left to be given up.
            await wait_until(lambda: "ended" in steps, description="the connection to be given up")
            link.mend()
            await wait_for_row(db, schema, locks=True)
            held.leave.set()
            await seen.wait_for(JobCompleted)

    assert ["written", "ended"] == steps[:2]
    assert ([], [], []) == (seen.of(LeaseInDoubt), seen.of(JobsRescued), held.alone.overlaps)


@pytest.mark.usefixtures("old_server")
async def test_a_worker_that_is_asked_whether_it_lives_answers_over_another_connection_if_its_own_is_half_open(
    dsn: str, schema: str, client: Client, seen: Seen, held: Held, db: asyncpg.Connection
) -> None:
    """The server ended the connection and freed the lock, but the worker was not notified."""
    async with link_to(dsn) as link, Worker(link.dsn, [held.task], schema=schema, observers=[seen]).start():
        await client.add_job("hold")
        await seen.wait_for(JobStarted)
        link.freeze("heartbeat")
        await db.execute(f"update {schema}._workers set doubted_at = clock_timestamp()")
        await db.execute(f"select pg_notify('{schema}:cancel', id || ' 0 0') from {schema}._workers")
        await wait_for_row(db, schema, locks=False)
        link.mend()
        await wait_for_row(db, schema, locks=True)
        held.leave.set()
        await seen.wait_for(JobCompleted)

    assert ([], []) == (seen.of(LeaseInDoubt), held.alone.overlaps)


async def test_a_worker_that_reaches_no_server_cancels_its_jobs_before_its_lease_is_over(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen, other: Seen, held: Held
) -> None:
    """No connection is refused, but none answers: the server keeps the lock of a worker that may be dead."""
    async with (
        link_to(dsn) as link,
        Worker(link.dsn, [held.task], schema=schema, observers=[other], lease=3).start(),
    ):
        added = await client.add_job("hold")
        await other.wait_for(JobStarted)
        for role in ROLES:
            link.freeze(role)
        async with make_worker(held.task, lease=3).start():
            await seen.wait_for(JobStarted)
            reasons = [event.reason for event in other.of(LeaseInDoubt)]
            held.leave.set()
            await seen.wait_for(JobCompleted)
            link.mend()
            await other.wait_for(WorkerLost)

    assert (["its lease is about to end"], [added.id]) == (reasons, seen.ids(JobCompleted))
    assert ["start", "end", "start", "end"] == [line.partition(" ")[0] for line in held.alone.log]


@pytest.mark.parametrize("spared", ["fetch", ""])
async def test_a_worker_lives_by_its_open_connections_when_no_more_are_available(
    dsn: str, seen: Seen, other: Seen, held: Held, spared: str
) -> None:
    """Others have theirs, and could rescue: without any it has to cancel its jobs."""
    async with three_roles(dsn) as roles:
        parts = urlsplit(dsn)
        poor = urlunsplit(parts._replace(netloc=f"{roles.worker}@{parts.netloc.rpartition('@')[2]}"))
        admin = await asyncpg.connect(dsn, server_settings={"application_name": "test"})
        try:
            await be_up_for_long(admin, roles.schema)
            await admin.execute(f"alter role {roles.worker} login")
            async with (
                Client(dsn, schema=roles.schema) as client,
                Worker(poor, [held.task], schema=roles.schema, observers=[other]).start(),
            ):
                added = await client.add_job("hold")
                await other.wait_for(JobStarted)
                async with Worker(dsn, [held.task], schema=roles.schema, observers=[seen], poll=60).start():
                    await admin.execute(f"alter role {roles.worker} connection limit 0")
                    # At once: a sign of life between two of them would make the lease decide.
                    ended = [f"{roles.schema} {role}" for role in ROLES if role != spared]
                    await admin.fetch(TERMINATE, roles.worker, ended)
                    await (other.wait_for(HeartbeatFailed, 2) if spared else seen.wait_for(JobStarted))
                    doubts = len(other.of(LeaseInDoubt))
                    await admin.execute(f"alter role {roles.worker} connection limit -1")
                    held.leave.set()
                    await (other if spared else seen).wait_for(JobCompleted)
        finally:
            await admin.close(timeout=5)

    assert (0 if spared else 1, []) == (doubts, held.alone.overlaps)
    assert [added.id] == (other if spared else seen).ids(JobCompleted)


# Servers that crash


async def test_a_server_that_is_killed_in_the_middle_of_jobs_costs_none_and_doubles_none(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server nobody can rescue. When it is back all locks are free, so the leases decide.

    A refused beat counts for half a grace. On a busy machine the next beat may take longer, and the worker rightly
    gives up. So the test extends half a grace, and the server is down for longer than that.
    """
    monkeypatch.setattr(lease_state, "HALF_GRACE_S", 3.0)
    monkeypatch.setattr("tempfile.tempdir", roomy_folder())
    server = await run_sync(start)
    everything = [Seen() for _ in range(3)]
    try:
        await Client(server.dsn).migrate()
        async with Client(server.dsn) as client, AsyncExitStack() as stack:
            for seen in everything:
                worker = Worker(server.dsn, [held.task], concurrency=1, observers=[seen], poll=1)
                await stack.enter_async_context(worker.start())
            ids = [(await client.add_job("hold")).id for _ in everything]
            for seen in everything:
                await seen.wait_for(JobStarted)
            await run_sync(server.kill)
            for seen in everything:
                await seen.wait_for(HeartbeatFailed, 5)
            await run_sync(server.restart)
            held.leave.set()
            for seen in everything:
                await seen.wait_for(JobCompleted)
    finally:
        await run_sync(server.stop)

    assert ids == sorted(job_id for seen in everything for job_id in seen.ids(JobCompleted))
    assert [] == [event for seen in everything for event in [*seen.of(LeaseInDoubt), *seen.of(WorkerLost)]]
    assert sorted(["start", "end"] * 3) == sorted(line.partition(" ")[0] for line in held.alone.log)


async def test_a_crash_of_one_backend_frees_all_locks_and_no_worker_is_declared_dead(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The postmaster keeps its start time, but its unlogged tables are empty."""
    monkeypatch.setattr("tempfile.tempdir", roomy_folder())
    server = await run_sync(start)
    seen, other = Seen(), Seen()
    try:
        await Client(server.dsn).migrate()
        async with Client(server.dsn) as client, AsyncExitStack() as stack:
            admin = await asyncpg.connect(server.dsn)
            for one in (seen, other):
                worker = Worker(server.dsn, [held.task], concurrency=1, observers=[one], lease=30, poll=1)
                await stack.enter_async_context(worker.start())
            ids = [(await client.add_job("hold")).id for _ in range(2)]
            for one in (seen, other):
                await one.wait_for(JobStarted)
            # As if all of this had begun long ago.
            await admin.execute("""
                create or replace function asyncq._locks_since() returns timestamptz language sql volatile as $$
                select coalesce((select run.since from asyncq._server_runs as run), clock_timestamp()) $$;
                update asyncq._server_runs set since = '-infinity'; checkpoint""")
            victim = await admin.fetchval(
                "select pid from pg_stat_activity where application_name = 'asyncq heartbeat' limit 1"
            )
            os.kill(victim, signal.SIGKILL)
            for one in (seen, other):
                await one.wait_for(ListenLost)
            admin = await _reconnect(server.dsn)
            young = await admin.fetchval("select coalesce(max(since) > '-infinity', true) from asyncq._server_runs")
            held.leave.set()
            for one in (seen, other):
                await one.wait_for(JobCompleted)
            await admin.close(timeout=5)
    finally:
        await run_sync(server.stop)

    assert (True, ids) == (young, sorted([*seen.ids(JobCompleted), *other.ids(JobCompleted)]))
    assert [] == [*seen.of(JobsRescued), *other.of(JobsRescued), *held.alone.overlaps]


async def _reconnect(dsn: str) -> asyncpg.Connection:
    async with asyncio.timeout(20):
        while True:
            try:
                return await asyncpg.connect(dsn)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.02)


# Jobs that may not have begun


async def test_a_job_that_may_have_run_with_a_dead_worker_is_named_before_it_runs(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """It lost no attempt with its worker; should this one die too, it is known who it was."""
    named: list[list[str]] = []

    @task
    async def look(ctx: JobContext) -> None:
        named.append(await db.fetchval(f"select started_claims from {schema}._workers"))

    added = await client.add_job(look)
    await db.execute(f"update {schema}._jobs set last_error = 'WorkerLost: worker 1 ...'")
    async with make_worker(look).start():
        await seen.wait_for(JobCompleted)

    assert [[f"{added.id}/1"]] == named


async def test_a_job_that_waits_to_be_named_is_returned_when_the_worker_stops(
    dsn: str, client: Client, seen: Seen, db: asyncpg.Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that did not start are returned."""
    for module in (heartbeat, heartbeat_thread):
        monkeypatch.setattr(module, "END_S", 0.5)  # for the heartbeat, which gets no answer

    @task
    async def never() -> None:
        raise AssertionError

    async with link_to(dsn) as link, Worker(link.dsn, [never], schema=schema, observers=[seen], grace=0).start():
        link.freeze("heartbeat")
        async with db.transaction():
            added = await client.add_job(never, connection=db)
            await db.execute(f"update {schema}._jobs set last_error = 'WorkerLost: worker 1 ...'")
        await wait_until(lambda: bool(seen.of(JobsReturned)) or _is_claimed(client, added.id), description="the claim")
    job = await client.get_job(added.id)

    assert (JobState.AVAILABLE, 0, []) == (job.state, job.attempts, seen.of(JobStarted))


async def _is_claimed(client: Client, job_id: int) -> bool:
    return (await client.get_job(job_id)).state == JobState.ACTIVE


async def test_a_worker_whose_claims_were_taken_by_hand_cancels_its_jobs_at_once(
    client: Client, make_worker: MakeWorker, seen: Seen, held: Held
) -> None:
    """An administrator declared it dead, and its jobs run elsewhere from now on."""
    async with make_worker(held.task, lease=3600).start():
        added = await client.add_job("hold")
        await seen.wait_for(JobStarted)
        (job,) = await client.admin.force_unlock_workers([1])
        await seen.wait_for(WorkerLost)
        await seen.wait_for(JobStarted, 2)
        held.leave.set()
        await seen.wait_for(JobCompleted)

    assert (added.id, [], [added.id]) == (job.id, seen.of(JobInterrupted), seen.ids(JobLost))
    assert [] == held.alone.overlaps

"""Each statement in a worker's life fails once: before the server ran it, after its commit, or with a refusal."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from asyncq import Client, JobContext, JobFilter, Snooze, StoreError, StoreUnavailable, task
from asyncq.domain.retry import ConstantRetry
from asyncq.engine.fetch import schedule, unconfirmed
from asyncq.store import claim
from asyncq.store.statements import folder, query
from asyncq.testing import make_worker
from tests.support.session import session
from tests.support.waiting import wait_until

# Statements of administration, cron, rare rounds, tests, clients alone, and roles: this life does not use them, each
# has tests of its own.
NOT_HERE = {
    "add_cron_item",
    "add_slots",
    "administer_jobs",
    "find_jobs",
    "change_matching",
    "count_matching",
    "failures",
    "failed_jobs",
    "backlog",
    "oldest_due",
    "depths_by",
    "running",
    "stats",
    "depths",
    "rights",
    "write_stats",
    "prune_stats",
    "change_cron_item",
    "change_history",
    "checkup",
    "cleanup",
    "clock_functions",
    "counts",
    "cron_status",
    "dead_rows",
    "end_transaction",
    "enqueue",
    "errors",
    "explain",
    "fill_slot",
    "fill_slot_awaited",
    "find_worker",
    "first_jobs",
    "force_unlock_workers",
    "get_job",
    "get_job_by_key",
    "lock_listener",
    "history_size",
    "holders",
    "insert_job",
    "list_history",
    "list_workers",
    "may_add",
    "note_block",
    "pause_cron_item",
    "register_crontabs",
    "remove_cron_item",
    "remove_job",
    "resume_cron_item",
    "run_cron_item",
    "server_time",
    "stored_item",
    "report_cron",
    "violations",
    "wake_workers",
    "watch",
    "set_partition",
    "partitions",
    "pause",
    "pauses",
    "unset_limit",
    "remove_limit",
    "wake_stranded",
    "limit_warnings",
    "resume",
    "limits",
    "set_limit",
    "held_back",
    "correct_counts",
    "end_moves",
}
# Statements that run only after another failure.
SECOND_LINE = {
    "lock_worker": "beat",
    "return_lost": "fetch_jobs",
    "still_claimed": "fetch_jobs",
}
# Their first call claims nothing, it lets the server plan them.
PLANNED = {"fetch_jobs"}
STATEMENTS = sorted({path.stem for path in (folder() / "queries").rglob("*.sql")} - NOT_HERE)

DEAD = """
with dead as (
  insert into asyncq._workers (lease, last_seen, pid, concurrency, host, tasks)
  values ('1 s', now() - interval '1 h', 1, 1, 'h', '{}') returning id)
update asyncq._jobs set locked_by = dead.id, locked_at = now(), lock_token = 1 from dead where asyncq._jobs.id = $1
"""
NOW = ConstantRetry(0)
# More than two: if something wakes the worker as one of them ends, a fetch takes the next one instead of that end.
SERIES = 4
ONCE = ("plain", "flaky", "sleepy", "orphan", "transactional", "own", "durable")
HISTORY = {f"{name} completed": 1 for name in ONCE} | {
    "endless cancelled": 1,
    "serial completed": SERIES,
    "effect completed": 2,
}

pytestmark = pytest.mark.crash


class Fault:
    """Lets one statement fail once.

    Attributes:
        fired: How often it has.
    """

    def __init__(self, name: str, how: str, schema: str) -> None:
        self._text = query(name, schema)
        self._how = how
        self._spared = int(name in PLANNED)
        self.fired = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """From now on every connection of the driver is watched."""
        fetch = asyncpg.Connection.fetch

        async def watched(connection: asyncpg.Connection, text: str, *args: Any, **options: Any) -> Any:
            if text != self._text or self.fired:
                return await fetch(connection, text, *args, **options)
            if self._spared:
                self._spared -= 1
                return await fetch(connection, text, *args, **options)
            self.fired += 1
            if self._how == "refused":
                raise asyncpg.SerializationError("could not serialize access, says the test")
            if self._how == "after":
                await fetch(connection, text, *args, **options)
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation, by the test")

        patch.setattr(asyncpg.Connection, "fetch", watched)


class Life:
    """A worker's life with every kind of job.

    Attributes:
        runs: How often each task has run.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self.runs: Counter[str] = Counter()
        self._added = asyncio.Event()

    def tasks(self) -> list[Any]:
        """Jobs that complete, have a step, run in series, fail once, snooze once, are cancelled, or had a dead worker.

        Two of them add another one in the transaction that completes them.
        """

        @task
        async def plain(ctx: JobContext) -> None:
            self.runs["plain"] += 1

        @task
        async def durable(ctx: JobContext) -> None:
            for _ in range(2):
                with contextlib.suppress(StoreError):
                    await ctx.step("nothing", lambda: None)
                    break
            self.runs["durable"] += 1

        @task(queue="q")
        async def serial(ctx: JobContext) -> None:
            self.runs["serial"] += 1
            with contextlib.suppress(StoreError):
                await ctx.back_off(0.001)
            await self._added.wait()
            # A notification of an add ends the turn of a queue, so that its next job is fetched.
            while self.runs["effect"] < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)

        @task(retry=NOW)
        async def flaky(ctx: JobContext) -> None:
            self.runs["flaky"] += 1
            if self.runs["flaky"] == 1:
                raise ValueError("once")

        @task
        async def sleepy() -> None:
            self.runs["sleepy"] += 1
            if self.runs["sleepy"] == 1:
                raise Snooze(0)

        @task
        async def endless(ctx: JobContext) -> None:
            self.runs["endless"] += 1
            ctx.progress(1)
            await asyncio.Event().wait()

        @task
        async def orphan() -> None:
            self.runs["orphan"] += 1

        @task(transactional=True, retry=NOW)
        async def transactional(ctx: JobContext) -> None:
            await ctx.add_job(effect)

        @task(retry=NOW)
        async def own(ctx: JobContext) -> None:
            async with ctx.connection() as db, db.transaction():
                await ctx.add_job(effect, connection=db)
                await ctx.complete(connection=db)

        @task
        async def effect() -> None:
            self.runs["effect"] += 1

        return [plain, durable, serial, flaky, sleepy, endless, transactional, own, effect, orphan]

    async def live(self) -> None:
        """Add the jobs, run them and stop; if a call is refused, try again, as a restarted service does."""
        tasks = self.tasks()
        for attempt in range(2):
            try:
                async with make_worker(
                    self._dsn, tasks, schema=self._schema, lease=3, forbidden_flags=["never"], keep="1 hour"
                ).start():
                    await self._add_and_wait(tasks)
                return
            except StoreError:
                assert attempt == 0

    async def history(self) -> Counter[str]:
        """The tasks of the jobs that have ended, each as often as it is in the history."""
        async with session(self._dsn, self._schema) as sql:
            return Counter(await sql.values("select task_identifier || ' ' || state from asyncq.history"))

    async def _is_idle(self) -> bool:
        """Whether the worker has a slot open."""
        async with session(self._dsn, self._schema) as sql:
            return await sql.value("select exists (select from asyncq._handoff_slots where token is not null)")

    def _have_been_retried(self) -> bool:
        return min(self.runs["flaky"], self.runs["sleepy"]) >= 2

    async def _add_and_wait(self, tasks: list[Any]) -> None:
        await wait_until(self._is_idle, description="the worker to be idle")
        async with Client(self._dsn, schema=self._schema) as client:
            for each in tasks[:-2]:
                count = SERIES if each.name == "serial" else 1
                if each.name == "own":
                    # A failed job of the same fetch would split its batch.
                    await wait_until(self._have_been_retried, description="the jobs that fail once to run again")
                for number in range(count):
                    # A batch has no room for a job that is kept; no fault comes as late as this add.
                    key = None if each.name == "own" else f"{each.name} {number}"
                    await self._add(client, each.job().with_options(idempotency_key=key))
            self._added.set()
            await wait_until(lambda: self.runs["endless"] > 0, description="the endless job to run")
            (endless,) = (await client.admin.find_jobs(JobFilter(task="endless"), newest=False)).jobs
            await client.admin.cancel_jobs([endless.id])

            async def is_empty() -> bool:
                return not (await client.admin.find_jobs(newest=False)).jobs

            await wait_until(is_empty, description=f"all jobs to end: {self.runs}", limit_s=20)

    async def _add(self, client: Client, spec: Any) -> None:
        try:
            await client.add_jobs([spec])
        except (StoreError, StoreUnavailable):
            await client.add_jobs([spec])


@pytest.fixture
async def life(dsn: str, schema: str) -> AsyncIterator[Life]:
    """A store with a job that a dead worker held."""
    async with session(dsn, schema) as sql:
        await sql.rows(DEAD, await sql.value("select id from asyncq.add_job('orphan')"))
        yield Life(dsn, schema)
        # A registration whose answer was lost left a row, which the lease ends.
        await sql.execute("delete from asyncq._workers")


@pytest.mark.parametrize("how", ["before", "after", "refused"])
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_worker_survives_the_failure_of(
    life: Life, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch, statement: str, how: str
) -> None:
    """Every job runs as often as needed, and no more: the claim is kept, or returned unstarted."""
    if statement == "claim_next":
        monkeypatch.setattr(schedule, "TURN_S", 3600)  # however long ago the last fetch was
    if statement == "split_batch_of_claim":
        monkeypatch.setattr(claim, "BATCH_FROM", 1)  # a job by itself is a batch
    if statement == "still_claimed":
        monkeypatch.setattr(unconfirmed, "FORGET_S", 0)
    fault = Fault(statement, how, schema)
    fault.install(monkeypatch)
    if first := SECOND_LINE.get(statement):
        Fault(first, "after", schema).install(monkeypatch)
    await life.live()

    once = {"plain": 1, "durable": 1, "endless": 1, "orphan": 1}
    assert once | {"serial": SERIES, "flaky": 2, "sleepy": 2, "effect": 2} == dict(life.runs)
    assert HISTORY == await life.history()
    assert fault.fired == 1

"""Each pair of features on one job: it works, or is refused with a sentence before a job is stored."""

import copy
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from anyio.abc import TaskGroup

from asyncq import (
    Client,
    Codec,
    Collect,
    ConfigurationError,
    CronItem,
    Ended,
    InvalidJob,
    JobContext,
    JobNotFound,
    JobsContext,
    Limit,
    Rate,
    Task,
    task,
)
from asyncq.domain.events import JobCancelled, JobCompleted, JobRetried, JobStarted, JobTimedOut
from asyncq.testing import MovableClock, make_worker
from tests.support.effects import Effects
from tests.support.features import (
    FAIL,
    HANG,
    HOLD,
    PART,
    Model,
    Order,
    Payload,
    act,
    process_model,
    process_order,
    process_steps,
    write,
)
from tests.support.seen import Seen
from tests.support.stage import MINUTE, START
from tests.support.waiting import wait_until


@dataclass
class Feature:
    """One feature: the options of the task and of the job, the script of the handler, and how many jobs are added."""

    task: dict[str, Any] = field(default_factory=dict[str, Any])
    job: dict[str, Any] = field(default_factory=dict[str, Any])
    script: list[str] = field(default_factory=list[str])
    jobs: int = 1


FEATURES = {
    "unique": Feature({"unique": {"keys": ["type", "args"], "on_conflict": "ignore"}}),
    "key": Feature(job={"job_key": "order"}),
    "queue": Feature({"queue": "line"}, jobs=2),
    "retry": Feature({"retry": [0.01]}, script=[FAIL]),
    "timeout": Feature({"timeout": "2 s"}, script=[HANG]),
    "transactional": Feature({"transactional": True}),
    "priority": Feature({"priority": 7}),
    "flags": Feature({"flags": ["heavy"]}),
    "cron": Feature(),
    "cancel": Feature(script=[HOLD]),
    "pydantic": Feature(),
    "keep": Feature({"keep": "1 h"}),
    "process": Feature({"run_in": "process"}),
    "result": Feature(),
    "codec": Feature(),
    "items": Feature({"items": True}, script=[PART]),
    "collect": Feature({"collect": Collect(max=2, within="5 s")}, jobs=2),
    "limit": Feature({"concurrency": Limit(1, by="log")}, jobs=2),
    "rate": Feature({"rate": Rate(2, per="0.1 s")}, jobs=2),
    "fair": Feature({"fair": "log"}, jobs=2),
    "pause": Feature(),
    "steps": Feature({"retry": [0.01]}, script=[FAIL]),
}
LIMITED = {"limit", "rate", "fair"}
REFUSED = {
    frozenset({"queue", "collect"}): "collect",
    frozenset({"transactional", "collect"}): "collect",
    frozenset({"items", "collect"}): "collect",
    frozenset({"process", "collect"}): "collect",
    frozenset({"items", "process"}): "items",
    frozenset({"cron", "items"}): "payload of task",
    frozenset({"unique", "key"}): "job_key goes without unique",
    frozenset({"steps", "process"}): "a handler in another process has no context",
    frozenset({"transactional", "process"}): "a transactional handler is a coroutine function",
    **{frozenset({"queue", by}): "queue 'line' is that of its jobs" for by in ("limit", "fair")},
    **{frozenset({"codec", by}): "in encoded payloads" for by in ("limit", "fair")},
    **{frozenset({"items", by}): "is no member of the payload" for by in ("limit", "fair")},
}
# They are found by the first call of a step.
REFUSED_IN_RUNS = {
    frozenset({"steps", "transactional"}): "is transactional, so that ctx.step has no use",
    frozenset({"steps", "collect"}): "a step belongs to one job",
}
PAIRS = [*itertools.combinations(FEATURES, 2)]


class Reversed(Codec):
    """A codec that writes payloads backwards."""

    key_id = "reversed"

    def encode(self, task: str, data: bytes) -> bytes:
        """Encode a payload."""
        return data[::-1]

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        """Decode a payload."""
        return data[::-1]


class Pair:
    """Two features, and the place where they meet.

    Attributes:
        names: The features.
        script: What the handler does in its first calls.
        jobs: The number of jobs.
        log: The file of calls.
        ends: The ends that were waited for.
    """

    def __init__(
        self, names: tuple[str, str], client: Client, effects: Effects, seen: Seen, log: Path, *, group: TaskGroup
    ) -> None:
        self.names, self.client, self.effects, self.seen, self.log = frozenset(names), client, effects, seen, log
        self.features = [FEATURES[name] for name in names]
        steps = [step for each in self.features for step in each.script]
        # A failure or a hang comes before the attempt that is cancelled.
        self.script = sorted(steps, key=[FAIL, HANG, PART, HOLD].index)
        self.jobs = max(each.jobs for each in self.features)
        self.group, self.ends = group, list[Ended]()

    def task(self) -> Task[...]:
        """Make the task."""
        options = {name: value for each in self.features for name, value in each.task.items()}
        if self.names == {"result", "cron"}:
            options["keep"] = "1 h"  # Nobody can wait for a job of a crontab before it starts.
        if self.names == {"limit", "collect"}:
            options["concurrency"] = Limit(2, by="log")  # A call counts as its jobs.
        return task(**{"retry": [0.01], **options})(self._handler())

    def _handler(self) -> Callable[..., Any]:
        payload = Model if "pydantic" in self.names else Order
        if "process" in self.names:
            if "steps" in self.names:
                return process_steps
            return process_model if payload is Model else process_order

        async def order(given: Any, ctx: Any) -> Any:
            if "transactional" in self.names:
                await ctx.query(self.effects.insert, ctx.job.id)
            if "steps" in self.names:
                await ctx.step("note", write, given[0] if self.names & {"items", "collect"} else given, "step")
            if self.names & {"items", "collect"}:
                return await act(given)
            await act([given])
            return given.number

        order.__annotations__["given"] = list[payload] if self.names & {"items", "collect"} else payload
        order.__annotations__["ctx"] = JobsContext if "collect" in self.names else JobContext
        order.__annotations__["return"] = None if "items" in self.names else Any
        return order

    def payloads(self) -> list[Payload]:
        """Make the payload of each job, or its first item."""
        kind = Model if "pydantic" in self.names else Order
        return [kind(number=2 * number, log=str(self.log), script=self.script) for number in range(self.jobs)]

    async def add(self, made: Task[...]) -> list[int]:
        """Add the jobs, each of a key or a unique task twice; returns their ids."""
        ids: list[int] = []
        for payload in self.payloads():
            options = {name: value for each in self.features for name, value in each.job.items()}
            if "job_key" in options:
                options["job_key"] += str(payload.number)
            next_item = copy.copy(payload)
            next_item.number += 1
            spec = made.job([payload, next_item] if "items" in self.names else payload)
            added = await self.client.add_job(spec, **options)
            ids.append(added.id)
            if self.names & {"key", "unique"}:
                again = await self.client.add_job(spec, **options)
                assert (again.id, again.outcome) in {(added.id, "deduplicated"), (added.id, "updated")}
        return ids

    def wait_for(self, ids: list[int]) -> None:
        """Wait for the ends of these jobs, in tasks of the group."""

        async def wait(job_id: int) -> None:
            self.ends.append(await self.client.wait_for(job_id))

        for job_id in ids:
            self.group.start_soon(wait, job_id)

    def items(self, made: Task[...]) -> list[CronItem]:
        """Make a recurring item for each job."""
        key = {"job_key": "order"} if "key" in self.names else {}
        return [
            CronItem(task=made, match="* * * * *", payload=vars(each), identifier=f"item{each.number}", **key)
            for each in self.payloads()
        ]


@asynccontextmanager
async def jobs_of(pair: Pair, dsn: str, schema: str, db: asyncpg.Connection) -> AsyncIterator[list[int]]:
    """Add the jobs and run a worker; yields their ids."""
    made = pair.task()
    options: dict[str, Any] = {"schema": schema, "observers": [pair.seen], "poll": 60, "concurrency": 4}
    if "codec" in pair.names:
        options["codec"] = Reversed()
    if pair.names & LIMITED:
        await make_worker(dsn, [made], **options).run_once()  # A worker declares limits.
    if "pause" in pair.names:
        await pair.client.admin.pause(task=made.name)
    if "cron" not in pair.names:
        ids = await pair.add(made)
        await check_rows(pair, ids, schema, db)
        if "result" in pair.names:
            pair.wait_for(ids)
            watched = f"select count(*) from {schema}._jobs where extras ? 'watchers'"
            await wait_until(lambda: _equals(db.fetchval(watched), len(ids)), description="the waits")
        if "flags" in pair.names:
            await make_worker(dsn, [made], **options, forbidden_flags=["heavy"]).run_once()
            assert [] == pair.seen.of(JobStarted)
        if "pause" in pair.names:
            await make_worker(dsn, [made], **options).run_once()
            assert [] == pair.seen.of(JobStarted)
            await pair.client.admin.resume(task=made.name)
        async with make_worker(dsn, [made], **options).start():
            yield ids
        return
    async with MovableClock(dsn, schema) as clock:
        await clock.set(START)
        async with make_worker(dsn, [made], crontab=pair.items(made), **options).start():
            await clock.move(MINUTE)
            if "pause" in pair.names:
                jobs = f"select count(*) from {schema}._jobs"
                await wait_until(lambda: _equals(db.fetchval(jobs), pair.jobs), description="the recurring jobs")
                assert [] == pair.seen.of(JobStarted)
                await pair.client.admin.resume(task=made.name)
            started = pair.seen.ids
            await wait_until(lambda: len({*started(JobStarted)}) == pair.jobs, description="a run of each job")
            ids = sorted({*started(JobStarted)})
            if "result" in pair.names:
                pair.wait_for(ids)
            yield ids


async def _equals(value: Awaitable[object], expected: object) -> bool:
    return await value == expected


async def check_rows(pair: Pair, ids: list[int], schema: str, db: asyncpg.Connection) -> None:
    """Compare the rows of jobs that wait."""
    for job in [await pair.client.get_job(job_id) for job_id in ids]:
        assert job.priority == (7 if "priority" in pair.names else 0)
        assert job.queue == ("line" if "queue" in pair.names else None)
        stored = await db.fetchval(f"select payload::text from {schema}._jobs where id = $1", job.id)
        assert stored.startswith('"asyncq:1:reversed:') == ("codec" in pair.names)
        partition = await db.fetchval(f"select partition from {schema}._jobs where id = $1", job.id)
        assert (partition is not None) == bool(pair.names & {"queue", "pause", *LIMITED})


def check_calls(pair: Pair) -> None:
    """Compare the calls of the handler."""
    lines = pair.log.read_text().splitlines()
    begun = [line.split() for line in lines if line.startswith("begin")]
    assert {kind for _, _, kind, _ in begun} == {"Model" if "pydantic" in pair.names else "Order"}
    assert (str(os.getpid()) in {pid for _, pid, _, _ in begun}) == ("process" not in pair.names)
    assert lines.count("step") == (pair.jobs if "steps" in pair.names else 0)
    if "cancel" not in pair.names:
        calls = 1 if "collect" in pair.names else pair.jobs
        assert (lines.count("end"), len(begun)) == (calls, calls + len(pair.script))
    if pair.names & {"queue", "limit"} and "collect" not in pair.names and not pair.script:
        assert [line.split()[0] for line in lines] == ["begin", "end"] * pair.jobs


async def check_events(pair: Pair, ids: list[int]) -> None:
    """Wait for the ends of the jobs, and compare the events before them."""
    seen, log = pair.seen, pair.log
    at_once = pair.jobs if "collect" in pair.names else 1
    if "cancel" in pair.names:
        held = len(pair.script)
        await wait_until(lambda: log.exists() and log.read_text().count("begin") >= held, description="the held call")
        await pair.client.admin.cancel_jobs(ids)
        await seen.wait_for(JobCancelled, at_once)
    else:
        await seen.wait_for(JobCompleted, len(ids))
    assert len(seen.of(JobRetried)) == at_once * len([step for step in pair.script if step != HOLD])
    assert len(seen.of(JobTimedOut)) == at_once * pair.script.count(HANG)


async def check_left(pair: Pair, ids: list[int]) -> None:
    """Compare what is left of the jobs: nothing, their history, their results."""
    state = "cancelled" if "cancel" in pair.names else "completed"
    numbers = dict(zip(ids, [payload.number for payload in pair.payloads()], strict=True))
    results = {job_id: None if pair.names & {"cancel", "items"} else str(numbers[job_id]) for job_id in ids}
    if "result" in pair.names:
        await wait_until(lambda: len(pair.ends) == len(ids), description="the ends")
    for ended in pair.ends:
        returned = results[ended.id] or (None if state == "cancelled" else "null")
        assert (ended.state, ended.result) == (state, returned)
    for job_id in ids:
        if "keep" not in pair.names and pair.names != {"result", "cron"}:
            with pytest.raises(JobNotFound):
                await pair.client.get_job(job_id)
            continue
        job = await pair.client.get_job(job_id)
        failed = len([step for step in pair.script if step != HOLD])
        assert (job.state, job.result) == (state, results[job_id])
        assert (job.attempts, len(job.errors)) == (failed + 1, failed)
        assert None not in (job.started_at, job.worker_id)


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
async def test_two_features_of_a_job_work_together_or_are_refused(
    names: tuple[str, str],
    dsn: str,
    schema: str,
    db: asyncpg.Connection,
    seen: Seen,
    effects: Effects,
    tmp_path: Path,
) -> None:
    """The effects of both are seen. A pair that is refused stores nothing."""
    codec = Reversed() if "codec" in names else None
    async with Client(dsn, schema=schema, codec=codec) as client, anyio.create_task_group() as group:
        pair = Pair(names, client, effects, seen, tmp_path / "calls", group=group)
        refusal = REFUSED.get(pair.names)
        if said := REFUSED_IN_RUNS.get(pair.names):
            async with jobs_of(pair, dsn, schema, db):
                assert said in (await seen.wait_for(JobRetried)).error
            return
        refused = pytest.raises((ConfigurationError, InvalidJob), match=refusal) if refusal else nullcontext()
        with refused:
            async with jobs_of(pair, dsn, schema, db) as ids:
                await check_events(pair, ids)
        if refusal:
            assert (await client.admin.find_jobs(newest=False)).jobs == []
            return
        check_calls(pair)
        if "transactional" in names:
            # Good items of a job are committed by each of its runs.
            runs = 0 if "cancel" in names else 2 if "items" in names else 1
            assert await effects.kept() == sorted(ids * runs)
        await check_left(pair, ids)


def test_the_guide_shows_which_pairs_work() -> None:
    """Its table is that of these tests."""
    page = (Path(__file__).parents[2] / "docs" / "guide" / "together.md").read_text()
    written = "\n".join(table())

    assert written in page, f"docs/guide/together.md should have this table:\n{written}"


def table() -> Iterator[str]:
    """Write the table of the guide."""
    names = [*FEATURES]
    yield f"| | {' | '.join(names[1:])} |"
    yield f"| --- {'| :-: ' * len(names[1:])}|"
    for place, row in enumerate(names[:-1]):
        cells = ["no" if frozenset({row, name}) in REFUSED | REFUSED_IN_RUNS else "yes" for name in names[place + 1 :]]
        yield f"| {row} | {' | '.join([*[''] * place, *cells])} |"

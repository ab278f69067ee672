"""Each pair of features on one job: it works, or is refused with a sentence before a job is stored."""

import copy
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from asyncq import (
    Client,
    Collect,
    ConfigurationError,
    CronItem,
    InvalidJob,
    JobContext,
    JobNotFound,
    JobsContext,
    JobSpec,
    Task,
    task,
)
from asyncq.domain.events import JobCancelled, JobCompleted, JobRetried, JobStarted, JobTimedOut
from asyncq.testing import MovableClock, make_worker
from tests.support.effects import Effects
from tests.support.features import FAIL, HANG, HOLD, PART, Model, Order, Payload, act, process_model, process_order
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
    "timeout": Feature({"timeout": "1 s"}, script=[HANG]),
    "transactional": Feature({"transactional": True}),
    "priority": Feature({"priority": 7}),
    "flags": Feature({"flags": ["heavy"]}),
    "cron": Feature(),
    "cancel": Feature(script=[HOLD]),
    "pydantic": Feature(),
    "keep": Feature({"keep": "1 h"}),
    "process": Feature({"run_in": "process"}),
    "items": Feature({"items": True}, script=[PART]),
    "collect": Feature({"collect": Collect(max=2, within="5 s")}, jobs=2),
}
REFUSED = {
    frozenset({"queue", "collect"}): "collect",
    frozenset({"transactional", "collect"}): "collect",
    frozenset({"items", "collect"}): "collect",
    frozenset({"process", "collect"}): "collect",
    frozenset({"items", "process"}): "items",
    frozenset({"cron", "items"}): "payload of task",
    frozenset({"unique", "key"}): "job_key goes without unique",
    frozenset({"transactional", "process"}): "a transactional handler is a coroutine function",
}
PAIRS = [*itertools.combinations(FEATURES, 2)]


class Pair:
    """Two features, the task that has both, and a table of the test for effects in transactions."""

    def __init__(self, names: tuple[str, str], effects: Effects) -> None:
        self.names, self.effects = frozenset(names), effects
        self.features = [FEATURES[name] for name in names]
        # A failure or a hang comes before the attempt that is cancelled.
        self.script = sorted(
            (step for each in self.features for step in each.script), key=[FAIL, HANG, PART, HOLD].index
        )

    def task(self) -> Task[...]:
        """Make the task."""
        options = {name: value for each in self.features for name, value in each.task.items()}
        return task(**{"retry": [0.01], **options})(self._handler())

    def _handler(self) -> Callable[..., Any]:
        payload = Model if "pydantic" in self.names else Order
        if "process" in self.names:
            return process_model if payload is Model else process_order

        async def order(given: Any, ctx: Any) -> Any:
            if "transactional" in self.names:
                await ctx.query(self.effects.insert, ctx.job.id)
            if self.names & {"items", "collect"}:
                return await act(given)
            await act([given])
            return given.number

        order.__annotations__["given"] = list[payload] if self.names & {"items", "collect"} else payload
        order.__annotations__["ctx"] = JobsContext if "collect" in self.names else JobContext
        return order

    def payloads(self, log: Path) -> list[Payload]:
        """Make the payload of each job, or its first item."""
        kind = Model if "pydantic" in self.names else Order
        count = max(each.jobs for each in self.features)
        return [kind(number=2 * number, log=str(log), script=self.script) for number in range(count)]

    def job(self, made: Task[...], payload: Payload) -> JobSpec:
        """Make a job."""
        if "items" in self.names:
            next_item = copy.copy(payload)
            next_item.number += 1
            return made.job([payload, next_item])
        return made.job(payload)


async def add(client: Client, pair: Pair, made: Task[...], payloads: list[Payload]) -> list[int]:
    """Add the jobs, each of a key or a unique task twice."""
    ids: list[int] = []
    for payload in payloads:
        options = {name: value for each in pair.features for name, value in each.job.items()}
        if "job_key" in options:
            options["job_key"] += str(payload.number)
        added = await client.add_job(pair.job(made, payload), **options)
        ids.append(added.id)
        if pair.names & {"key", "unique"}:
            again = await client.add_job(pair.job(made, payload), **options)
            assert (again.id, again.outcome) in {(added.id, "deduplicated"), (added.id, "updated")}
    return ids


@asynccontextmanager
async def jobs_of(
    pair: Pair, made: Task[...], payloads: list[Payload], client: Client, dsn: str, schema: str, seen: Seen
) -> AsyncIterator[list[int]]:
    """Add the jobs and run a worker; yields their ids."""
    options: dict[str, Any] = {"schema": schema, "observers": [seen], "poll": 60, "concurrency": 4}
    if "cron" not in pair.names:
        ids = await add(client, pair, made, payloads)
        await check_rows(pair, client, ids)
        if "flags" in pair.names:
            await make_worker(dsn, [made], **options, forbidden_flags=["heavy"]).run_once()
            assert [] == seen.of(JobStarted)
        async with make_worker(dsn, [made], **options).start():
            yield ids
        return
    keys = {"job_key": "order"} if "key" in pair.names else {}
    items = [
        CronItem(
            task=made,
            match="* * * * *",
            payload=vars(each),
            identifier=f"item{each.number}",
            **keys,
        )
        for each in payloads
    ]
    async with MovableClock(dsn, schema) as clock:
        await clock.set(START)
        async with make_worker(dsn, [made], crontab=items, **options).start():
            await clock.move(MINUTE)
            await wait_until(lambda: len({*seen.ids(JobStarted)}) == len(payloads), description="a run of each job")
            yield sorted({*seen.ids(JobStarted)})


async def check_rows(pair: Pair, client: Client, ids: list[int]) -> None:
    """Compare the rows of jobs that wait."""
    for job in [await client.get_job(job_id) for job_id in ids]:
        assert job.priority == (7 if "priority" in pair.names else 0)
        assert job.queue == ("line" if "queue" in pair.names else None)


def check_calls(pair: Pair, log: Path, jobs: int) -> None:
    """Compare the calls of the handler."""
    lines = log.read_text().splitlines()
    begun = [line.split() for line in lines if line.startswith("begin")]
    assert {kind for _, _, kind, _ in begun} == {"Model" if "pydantic" in pair.names else "Order"}
    assert (str(os.getpid()) in {pid for _, pid, _, _ in begun}) == ("process" not in pair.names)
    if "cancel" not in pair.names:
        calls = 1 if "collect" in pair.names else jobs
        assert (lines.count("end"), len(begun)) == (calls, calls + len(pair.script))
    if "queue" in pair.names and not pair.script:
        assert [line.split()[0] for line in lines] == ["begin", "end"] * jobs


async def check_events(pair: Pair, seen: Seen, client: Client, ids: list[int], log: Path) -> None:
    """Wait for the ends of the jobs, and compare the events before them."""
    if "cancel" in pair.names:
        held = len(pair.script)
        await wait_until(lambda: log.exists() and log.read_text().count("begin") >= held, description="the held call")
        await client.admin.cancel_jobs(ids)
        await seen.wait_for(JobCancelled, len(ids) if "collect" in pair.names else 1)
    else:
        await seen.wait_for(JobCompleted, len(ids))
    at_once = len(ids) if "collect" in pair.names else 1
    assert len(seen.of(JobRetried)) == at_once * len([step for step in pair.script if step != HOLD])
    assert len(seen.of(JobTimedOut)) == at_once * pair.script.count(HANG)


async def check_left(pair: Pair, client: Client, ids: list[int]) -> None:
    """Nothing is left of the jobs, or their history."""
    for job_id in ids:
        if "keep" not in pair.names:
            with pytest.raises(JobNotFound):
                await client.get_job(job_id)
            continue
        job = await client.get_job(job_id)
        if "cancel" in pair.names:
            assert (job.state, job.result) == ("cancelled", None)
        else:
            result = None if "items" in pair.names else str(json.loads(job.payload)["number"])
            assert (job.state, job.result) == ("completed", result)
        failed = len([step for step in pair.script if step != HOLD])
        assert (job.attempts, len(job.errors)) == (failed + 1, failed)
        assert None not in (job.started_at, job.worker_id)


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
async def test_two_features_of_a_job_work_together_or_are_refused(
    names: tuple[str, str],
    dsn: str,
    schema: str,
    client: Client,
    seen: Seen,
    effects: Effects,
    tmp_path: Path,
) -> None:
    """The effects of both are seen. A pair that is refused stores nothing."""
    pair, log = Pair(names, effects), tmp_path / "calls"
    refusal = REFUSED.get(pair.names)
    refused = pytest.raises((ConfigurationError, InvalidJob), match=refusal) if refusal else nullcontext()
    with refused:
        made, payloads = pair.task(), pair.payloads(log)
        async with jobs_of(pair, made, payloads, client, dsn, schema, seen) as ids:
            await check_events(pair, seen, client, ids, log)
    if refusal:
        assert await client.admin.list_jobs() == []
        return
    check_calls(pair, log, len(ids))
    if "transactional" in pair.names:
        # Good items of a job are committed by each of its runs.
        runs = 0 if "cancel" in pair.names else 2 if "items" in pair.names else 1
        assert await effects.kept() == sorted(ids * runs)
    await check_left(pair, client, ids)


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
        cells = ["no" if frozenset({row, name}) in REFUSED else "yes" for name in names[place + 1 :]]
        yield f"| {row} | {' | '.join([*[''] * place, *cells])} |"

"""Unique policies, singletons and idempotency keys through the client."""

import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

import asyncq
from asyncq import Added, Client, DuplicateJob, InvalidJob, JobContext, JobState, OnConflict, UniquePolicy, task
from asyncq.testing import run_due


class Report(msgspec.Struct):
    year: int
    copies: int = 1


@task(unique=UniquePolicy(keys=["args"], args_keys=["year"]))
async def make_report(report: Report) -> None:
    """A job for each year."""


@task(singleton=True)
async def sync_account(account: str) -> None:
    """One for each account, if the account is the subject."""


@task(unique={"on_conflict": "ignore"}, queue="q")
async def tidy() -> None:
    """A policy as JSON has it."""


async def count(db: asyncpg.Connection, schema: str) -> int:
    """How many jobs there are."""
    return await db.fetchval(f"select count(*) from {schema}._all_jobs()")


async def test_a_rejected_job_is_an_error_with_the_other_job(client: Client) -> None:
    """Programs read the attributes of the error."""
    first = await client.add_job(make_report, Report(2026))
    with pytest.raises(
        DuplicateJob, match=f"job {first.id}, which is available, prevents another one like it"
    ) as caught:
        await client.add_job(make_report, Report(2026, copies=2))
    other = await client.add_job(make_report, Report(2027))

    assert (first.id, JobState.AVAILABLE) == (caught.value.existing_id, caught.value.existing_state)
    assert ["added", "added"] == [first.outcome, other.outcome]


async def test_the_callers_transaction_continues_after_a_rejected_job(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """The server raised no error, so the transaction's other statements are committed."""
    await client.add_job(make_report, Report(2026))
    async with db.transaction():
        await client.add_job("before", connection=db)
        with pytest.raises(DuplicateJob):
            await client.add_job(make_report, Report(2026), connection=db)
        await client.add_job("after", connection=db)

    assert 3 == await count(db, schema)


async def test_in_bulk_a_rejected_job_is_an_answer_among_others(client: Client) -> None:
    """All others are added; each answer has its outcome and the reason."""
    first = await client.add_job(make_report, Report(2026))
    done = await client.add_jobs(
        [
            tidy.job(),
            make_report.job(Report(2026)),
            make_report.job(Report(2027)),
            tidy.job(),
            make_report.job(Report(2027)),
        ]
    )
    ids = [added.id for added in done]

    assert [
        Added(ids[0]),
        Added(first.id, "rejected", first.id, JobState.AVAILABLE),
        Added(ids[2]),
        Added(ids[0], "deduplicated", ids[0], JobState.AVAILABLE),
        Added(ids[2], "rejected", ids[2], JobState.AVAILABLE),
    ] == done


async def test_a_job_has_its_own_policy_instead_of_its_tasks(client: Client) -> None:
    """The policy may be an object or a mapping."""
    first = await client.add_job(make_report, Report(2026))
    dropped = await client.add_job(make_report, Report(2026), unique=UniquePolicy(keys=["args"], on_conflict="ignore"))
    fresh = await client.add_job(
        make_report.job(Report(2026)).with_options(
            unique={"keys": ["args"], "args_keys": ["year"], "on_conflict": OnConflict.REPLACE}
        )
    )

    assert ["added", "added", "added"] == [first.outcome, dropped.outcome, fresh.outcome]
    assert (first.id, JobState.AVAILABLE) == (fresh.existing_id, fresh.existing_state)


async def test_an_add_by_name_has_the_policy_of_a_task_that_the_client_knows(
    dsn: str, schema: str, client: Client
) -> None:
    """The other defaults of the task apply too."""
    async with Client(dsn, schema=schema, tasks=[tidy, sync_account, make_report]) as knowing:
        first = await knowing.add_job("tidy")
        again = await knowing.add_job("tidy")
        subjects = [await knowing.add_job("sync_account", {"account": "a"}, subject=name) for name in ("a", "b", "a")]
        await knowing.add_job("make_report", {"year": 1})
        with pytest.raises(DuplicateJob):
            await knowing.add_job("make_report", {"year": 1})
    unknowing = await client.add_job("tidy")

    assert (first.id, "deduplicated") == (again.id, again.outcome)
    assert ["added", "added", "deduplicated"] == [added.outcome for added in subjects]
    assert "added" == unknowing.outcome


async def test_jobs_of_sql_and_python_conflict_with_each_other(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """Both compute the same key, to the byte."""
    policy: dict[str, Any] = {"keys": ["args", "queue"], "on_conflict": "ignore"}
    first = await client.add_job("t", {"b": 1.50, "a": "é"}, queue="q", unique=policy)
    in_sql = await db.fetchval(
        f"select id from {schema}.add_job('t', $1, 'q', options => $2)",
        '{"a": "e\u0301", "b": 15e-1}',
        msgspec.json.encode({"unique": policy}).decode(),
    )

    assert first.id == in_sql


# Singletons


async def test_a_singleton_is_dropped_while_one_waits_or_runs(dsn: str, schema: str, client: Client) -> None:
    """Each add checks it, and its answer names the existing job."""
    outcomes: list[Added] = []

    @task(singleton=True)
    async def once(ctx: JobContext) -> None:
        outcomes.append(await ctx.add_job(once))

    first = await client.add_job(once)
    second = await client.add_job(once)
    await run_due(dsn, [once], schema=schema)
    third = await client.add_job(once)

    assert Added(first.id, "deduplicated", first.id, JobState.AVAILABLE) == second
    assert [Added(first.id, "deduplicated", first.id, JobState.ACTIVE)] == outcomes
    assert "added" == third.outcome


async def test_each_subject_has_a_singleton(client: Client) -> None:
    """A job without a subject is separate."""
    done = [
        await client.add_job(sync_account.job(account="x").with_options(subject=subject))
        for subject in ("a", "b", None, "a")
    ]

    assert ["added", "added", "added", "deduplicated"] == [added.outcome for added in done]


async def test_a_singleton_can_be_forced(client: Client, db: asyncpg.Connection, schema: str) -> None:
    """It is a second one beside the first."""
    await client.add_job(sync_account, "a", subject="a")
    forced = await client.add_job(sync_account, "a", subject="a", force=True)
    later = await client.add_job(sync_account, "a", subject="a")

    assert ("added", forced.id) == (forced.outcome, later.id)
    assert 2 == await count(db, schema)


async def test_a_rerun_is_remembered_while_the_job_runs(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection
) -> None:
    """The payload of the last request counts."""
    outcomes: list[Added] = []
    reruns: list[str] = []

    @task(singleton=True)
    async def index(version: int, ctx: JobContext) -> None:
        if version == 1:
            outcomes.extend([await ctx.add_job(index.job(version=number), rerun=True) for number in (2, 3)])
            reruns.append(
                await db.fetchval(f"select rerun::text from {schema}._all_jobs() where locked_by is not null")
            )

    added = await client.add_job(index.job(version=1))
    waiting = await client.add_job(index.job(version=7), rerun=True)
    await run_due(dsn, [index], schema=schema)

    assert "deduplicated" == waiting.outcome
    assert [Added(added.id, "updated", added.id, JobState.ACTIVE)] * 2 == outcomes
    assert ['{"version":3}'] == reruns


async def test_a_job_with_a_policy_has_no_job_key(client: Client) -> None:
    """They contradict each other, unless the policy is forced off."""
    with pytest.raises(InvalidJob, match="two answers to what becomes of an add beside another job") as caught:
        await client.add_job(sync_account, "a", job_key="k")
    forced = await client.add_job(sync_account, "a", job_key="k", force=True)

    assert ("GWBUP", "job_key", "added") == (caught.value.code, caught.value.field, forced.outcome)


# Idempotency keys


async def test_a_repeated_request_returns_the_same_job(client: Client, dsn: str, schema: str) -> None:
    """It does so even after the job has ended."""

    @task
    async def pay(order: int) -> None: ...

    first = await client.add_job(pay, 7, idempotency_key="order-7")
    waiting = await client.add_job(pay, 7, idempotency_key="order-7", run_at=datetime.now(UTC) + timedelta(hours=1))
    await run_due(dsn, [pay], schema=schema)
    done = await client.add_job(pay, 7, idempotency_key="order-7")

    assert [Added(first.id, "deduplicated", first.id, state) for state in (JobState.AVAILABLE, JobState.COMPLETED)] == [
        *(waiting, done),
    ]


async def test_another_request_under_a_key_is_an_error(client: Client) -> None:
    """In a bulk add the wrong job is named."""
    await client.add_job("pay", {"order": 7}, idempotency_key="k")
    with pytest.raises(InvalidJob, match="a new request needs a new key") as caught:
        await client.add_job("pay", {"order": 8}, idempotency_key="k")
    with pytest.raises(InvalidJob, match=r"Job 2 of 2\."):
        await client.add_jobs(
            [asyncq.JobSpec(task="t"), asyncq.JobSpec(task="pay", payload='{"order":9}', idempotency_key="k")]
        )

    assert ("GWBIK", "idempotency_key") == (caught.value.code, caught.value.field)


async def test_the_declared_capabilities_are_those_that_the_spec_requires() -> None:
    """The Open Job Spec has two fields: strength and mechanism."""
    declared = asyncq.CAPABILITIES["unique_jobs"]

    assert {"strength": "strong", "mechanism": declared["mechanism"]} == declared
    with pytest.raises(TypeError):
        asyncq.CAPABILITIES["unique_jobs"] = {}  # pyright: ignore[reportIndexIssue]


ADD = """
import asyncio, sys
from asyncq import Client, UniquePolicy, task

@task(unique=UniquePolicy(keys=["type", "args"], on_conflict="ignore"))
async def label(tags: set[str], more: dict[str, frozenset[str]]) -> None: ...

async def main(dsn, schema, key):
    async with Client(dsn, schema=schema) as client:
        words = ["red", "green", "blue", "white", "black"]
        job = label.job(set(words), {"more": frozenset(words)})
        if key:
            job = job.with_options(force=True, idempotency_key=key)
        print((await client.add_job(job)).outcome)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("key", ["", "request"], ids=["policy", "idempotency key"])
async def test_processes_agree_on_a_payload_with_sets(dsn: str, schema: str, db: asyncpg.Connection, key: str) -> None:
    """A set has another order in each process; a policy and an idempotency key compare its text."""
    said: list[str] = []
    for seed in ("0", "1", "2", "3"):
        program = [sys.executable, "-c", ADD, dsn, schema, key]
        done = await anyio.run_process(program, env=os.environ | {"PYTHONHASHSEED": seed})
        said.append(done.stdout.decode().strip())

    assert ["added", "deduplicated", "deduplicated", "deduplicated"] == said
    assert 1 == await count(db, schema)

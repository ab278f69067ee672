"""A connection that is lost at COMMIT: the server is asked what became of it, and the job is run again or not."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from asyncq import Client, ConstantRetry, JobContext, Task, Worker, task
from asyncq.domain.events import CommitUncertain, JobCompleted, JobLost, JobRetried, JobStarted, TransactionAborted
from asyncq.engine.run import transactions
from tests.support.effects import Effects, commits, end_transactions
from tests.support.faults import Link, link_to
from tests.support.seen import Seen
from tests.support.waiting import wait_until


@pytest.fixture
async def link(dsn: str) -> AsyncIterator[Link]:
    """The worker's way to the server."""
    async with link_to(dsn) as made:
        yield made


def through(link: Link, schema: str, seen: Seen, *tasks: Task[...], **options: Any) -> Worker:
    """A worker whose connections use a link."""
    return Worker(link.dsn, tasks, schema=schema, observers=[seen], **{"poll": 60, **options})


def writing(effects: Effects) -> Task[...]:
    """A task that writes the id of its job."""

    @task(transactional=True, retry=ConstantRetry(0))
    async def write(ctx: JobContext) -> None:
        await ctx.query(effects.insert, ctx.job.id)

    return write


@pytest.fixture
async def stalled(db: asyncpg.Connection, effects: Effects, schema: str) -> asyncpg.Connection:
    """A connection that holds up all commits in the middle, by a deferred trigger, until it unlocks or ends."""
    await effects.on_commit(f"perform pg_advisory_xact_lock(hashtext('{schema}'))")
    await db.execute(f"select pg_advisory_lock(hashtext('{schema}'))")
    return db


async def until_it_commits(db: asyncpg.Connection, schema: str) -> None:
    """Wait until the transaction of a job waits in its COMMIT."""
    await wait_until(lambda: commits(db, schema), description="a COMMIT to wait")


async def test_a_commit_that_did_not_reach_the_server_is_done_again(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str
) -> None:
    """The server confirms the rollback. No attempt is counted, and the work is done once."""
    write = writing(effects)
    link.cut_at_commit("handlers", "before")
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(CommitUncertain) == seen.ids(TransactionAborted) == await effects.kept()
    assert seen.of(TransactionAborted)[0].error.startswith(
        "CommitLost: the connection was lost at COMMIT, nothing was kept"
    )
    assert (2, []) == (len(seen.of(JobStarted)), seen.of(JobRetried))


async def test_a_commit_whose_answer_was_lost_is_done(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str
) -> None:
    """The server confirms it. The job has completed, and does not run again."""
    write = writing(effects)
    link.cut_at_commit("handlers", "after")
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(CommitUncertain) == seen.ids(JobCompleted) == await effects.kept()
    assert 1 == len(seen.of(JobStarted))


async def test_commits_that_are_cut_anywhere_are_done_once(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str
) -> None:
    """The cut may come before, during or after the commit. The sum is exact."""
    write = writing(effects)
    for when in ("before", "sent", "after") * 8:
        link.cut_at_commit("handlers", when)
    ids = [added.id for added in await client.add_jobs([write.job() for _ in range(30)])]
    async with through(link, schema, seen, write).start():
        await seen.wait_for(JobCompleted, 30)

    assert ids == await effects.kept()
    assert (24, []) == (sum(link.cuts.values()), (await client.admin.find_jobs(newest=False)).jobs)
    assert 16 <= link.lost_commits


async def test_the_same_without_a_transaction_is_done_more_than_once(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str
) -> None:
    """As a control it shows that the cuts work: a statement that commits itself is lost or doubled by them."""

    @task(retry=ConstantRetry(0))
    async def write(ctx: JobContext) -> None:
        async with ctx.connection() as db, db.transaction():
            await db.execute(effects.insert, ctx.job.id)

    link.cut_at_commit("handlers", "after", 10)
    ids = [added.id for added in await client.add_jobs([write.job() for _ in range(10)])]
    async with through(link, schema, seen, write).start():
        await seen.wait_for(JobCompleted, 10)

    kept = await effects.kept()

    assert (ids, 2 * len(ids)) == (sorted({*kept}), len(kept))


async def test_a_commit_in_progress_is_waited_for(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str, stalled: asyncpg.Connection
) -> None:
    """The connection is lost, but the server still works. The outcome is not known yet."""
    write = writing(effects)
    link.cut_at_commit("handlers", "sent")
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await seen.wait_for(CommitUncertain)
        early = len(seen.of(JobStarted)), seen.of(JobCompleted)
        await stalled.execute("select pg_advisory_unlock_all()")
        await seen.wait_for(JobCompleted)

    assert (1, []) == early
    assert [added.id] == await effects.kept()
    assert 1 == len(seen.of(JobStarted))


async def test_a_commit_that_is_in_progress_beyond_the_lease_is_ended(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str, stalled: asyncpg.Connection
) -> None:
    """Otherwise its backend, whose connection is lost, would hold the job for ever."""
    write = writing(effects)
    link.cut_at_commit("handlers", "sent")
    added = await client.add_job(write)
    async with through(link, schema, seen, write, lease=1).start():
        await seen.wait_for(TransactionAborted)
        await stalled.execute("select pg_advisory_unlock_all()")
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(TransactionAborted) == await effects.kept()


async def test_a_commit_that_gets_no_answer_is_asked_about(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str, stalled: asyncpg.Connection
) -> None:
    """No data passes, and no error is raised. After the lease the worker asks over another connection."""
    write = writing(effects)
    added = await client.add_job(write)
    async with through(link, schema, seen, write, lease=1).start():
        await until_it_commits(stalled, schema)
        link.freeze_open("handlers")
        await seen.wait_for(CommitUncertain)
        await stalled.execute("select pg_advisory_unlock_all()")
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(CommitUncertain) == await effects.kept()


async def test_a_process_of_the_server_that_is_ended_at_commit_has_not_committed(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str, stalled: asyncpg.Connection
) -> None:
    """Its FATAL message does not prove that: a commit that waits for a standby is ended with the same one."""
    write = writing(effects)
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await until_it_commits(stalled, schema)
        await end_transactions(stalled, schema)
        await seen.wait_for(TransactionAborted)
        await stalled.execute("select pg_advisory_unlock_all()")
        await seen.wait_for(JobCompleted)

    assert [added.id] == seen.ids(CommitUncertain) == seen.ids(TransactionAborted) == await effects.kept()


@pytest.mark.parametrize("word", ["unknown", "lost"])
async def test_a_commit_that_the_server_does_not_know_is_decided_by_the_claim(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """The server may be another one, or has forgotten the transaction.

    If the claim exists the job is retried, otherwise it is lost.
    """

    async def say(*_: object) -> str:
        monkeypatch.undo()
        return word

    monkeypatch.setattr(transactions.store, "commit_status", say)
    write = writing(effects)
    link.cut_at_commit("handlers", "before" if word == "unknown" else "after")
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await seen.wait_for(JobCompleted if word == "unknown" else JobLost)

    assert [added.id] == await effects.kept()
    if word == "unknown":
        assert "this server does not know transaction" in seen.of(TransactionAborted)[0].error


async def test_the_question_is_asked_until_the_server_answers(
    client: Client, link: Link, seen: Seen, effects: Effects, schema: str
) -> None:
    """The connection is lost with the answer, and new ones to ask on are refused for a while."""
    write = writing(effects)
    link.cut_at_commit("handlers", "after")
    link.refuse("settle")
    added = await client.add_job(write)
    async with through(link, schema, seen, write).start():
        await seen.wait_for(transactions.SettleFailed, 2)
        link.mend()
        await seen.wait_for(JobCompleted)

    assert [added.id] == await effects.kept()
    assert 1 == len(seen.of(JobStarted))

"""A worker chooses: whose jobs it runs, by the names of queues and limits, and how many slots each of them gets."""

import asyncio
from collections import Counter

from asyncq import Client, JobCompleted, Limit, Share, Worker, task
from asyncq.testing import run_due
from tests.support.seen import Seen


@task
async def send(number: int) -> None:
    """Has no limit; its queue is that of the job."""


@task(concurrency=Limit(5, by="tenant_id", name="tenants"))
async def import_rows(tenant_id: int) -> None:
    """Belongs to the limit `tenants`."""


TASKS = [send, import_rows]


async def test_a_worker_runs_only_jobs_of_the_queues_and_limits_that_it_names(
    dsn: str, schema: str, client: Client
) -> None:
    """And jobs that have neither: these belong to every worker that knows their task."""
    mail = await client.add_job(send.job(1).with_options(queue="mail"))
    other = await client.add_job(send.job(2).with_options(queue="other"))
    limited = await client.add_job(import_rows.job(3))
    plain = await client.add_job(send.job(4))
    first = await run_due(dsn, TASKS, schema=schema, queues=["mail"])
    second = await run_due(dsn, TASKS, schema=schema, queues=["tenants"])
    rest = await run_due(dsn, TASKS, schema=schema)

    assert sorted(first.completed) == [mail.id, plain.id]
    assert (second.completed, rest.completed) == ([limited.id], [other.id])


async def test_a_worker_never_runs_jobs_of_what_it_excludes(dsn: str, schema: str, client: Client) -> None:
    """An excluded limit holds for all jobs of its tasks, those with a queue too."""
    mail = await client.add_job(send.job(1).with_options(queue="mail"))
    other = await client.add_job(send.job(2).with_options(queue="other"))
    limited = await client.add_job(import_rows.job(3))
    both = await client.add_job(import_rows.job(4).with_options(queue="other"))
    first = await run_due(dsn, TASKS, schema=schema, exclude=["mail", "tenants"])
    second = await run_due(dsn, TASKS, schema=schema, exclude=["other"])
    rest = await run_due(dsn, TASKS, schema=schema)

    assert first.completed == [other.id]
    assert sorted(second.completed) == [mail.id, limited.id]
    assert rest.completed == [both.id]


async def test_a_share_holds_a_limit_or_a_queue_to_so_many_jobs_on_this_worker(
    dsn: str, schema: str, client: Client
) -> None:
    """Other jobs use the other slots. The limit over all workers is a different one."""
    running, most, seen = Counter[str](), Counter[str](), Seen()

    @task(concurrency=Limit(5, by="tenant_id", name="tenants"))
    async def work(tenant_id: int) -> None:
        kind = "tenants" if tenant_id else "plain"
        running[kind] += 1
        most[kind] = max(most[kind], running[kind])
        await asyncio.sleep(0.01)
        running[kind] -= 1

    @task
    async def plain() -> None:
        await work(0)

    await client.add_jobs([work.job(number) for number in range(1, 7)] * 2 + [plain.job()] * 12)
    worker = Worker(
        dsn, [work, plain], schema=schema, concurrency=6, queues=[Share("tenants", at_once=2)], observers=[seen]
    )
    await worker.run_once()

    assert (24, 2) == (len(seen.of(JobCompleted)), most["tenants"])
    assert most["plain"] > 2


async def test_a_job_that_no_worker_takes_is_explained(dsn: str, schema: str, client: Client) -> None:
    """It names the live workers that know the task, with the names that each has chosen; the list of workers too."""
    job = await client.add_job(send.job(1).with_options(queue="mail"))
    async with Worker(dsn, TASKS, schema=schema, queues=["reports", Share("tenants", at_once=2)]).start():
        (first,) = await client.admin.list_workers()
        (named,) = (await client.admin.explain(job.id)).reasons
    async with Worker(dsn, TASKS, schema=schema, exclude=["mail"]).start():
        (second,) = await client.admin.list_workers()
        (excluded,) = (await client.admin.explain(job.id)).reasons

    assert [(("reports", "tenants"), ()), (None, ("mail",))] == [
        (each.queues, each.exclude) for each in (first, second)
    ]
    assert "not_chosen" == named.reason == excluded.reason
    said = "no live worker takes jobs of queue mail: worker"
    assert f"{said} {first.id} has queues reports, tenants" == named.detail
    assert f"{said} {second.id} excludes mail" == excluded.detail

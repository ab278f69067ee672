"""A worker runs jobs until it is stopped, for the duration of a block, or until no due job is left."""

import anyio
import pytest

from asyncq import Client, ConfigurationError, JobContext, JobState, TaskError, Worker, task
from tests.support.waiting import wait_until


async def test_run_once_runs_due_jobs_and_returns(dsn: str, schema: str, client: Client) -> None:
    """Jobs that are added meanwhile are included. It is for cron jobs, scripts and tests."""
    greeted: list[str] = []

    @task
    async def greet(name: str, ctx: JobContext) -> None:
        greeted.append(name)
        if name == "Ada":
            await ctx.add_job("greet", {"name": "Bob"})

    await client.add_job("greet", {"name": "Ada"})
    await Worker(dsn, [greet], schema=schema).run_once()

    assert greeted == ["Ada", "Bob"]


async def test_a_worker_can_live_inside_a_service(dsn: str, schema: str, client: Client) -> None:
    """`start()` is a context manager, for the lifespan of a web application: it takes jobs while the block lasts."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    async with Worker(dsn, [greet], schema=schema).start():
        await client.add_job(greet, "Ada")
        await wait_until(lambda: greeted == ["Ada"], description="the greeting")


async def test_a_worker_runs_until_it_is_stopped(dsn: str, schema: str, client: Client) -> None:
    """`asyncio.run(worker.run())` is a whole program: SIGTERM and Ctrl-C stop it, and so does `stop()`."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    worker = Worker(dsn, [greet], schema=schema)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await client.add_job(greet, "Ada")
        await wait_until(lambda: greeted == ["Ada"], description="the greeting")
        await worker.stop()


async def test_a_new_job_wakes_an_idle_worker(dsn: str, schema: str, client: Client) -> None:
    """PostgreSQL notifies it.

    `poll`, the interval of checks without a notification, is only a safety net; here a minute.
    """
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    async with Worker(dsn, [greet], schema=schema, poll=60).start():
        for name in ("Ada", "Bob", "Cleo"):
            await client.add_job(greet, name)
            await wait_until(lambda name=name: name in greeted, description=f"{name} to be greeted")


async def test_a_stopping_worker_lets_running_jobs_finish(dsn: str, schema: str, client: Client) -> None:
    """Within `grace`, 25 s by default: a deploy does not tear work apart."""
    started, finished = anyio.Event(), anyio.Event()

    @task
    async def write_report(ctx: JobContext) -> None:
        started.set()
        await ctx.cancelled.wait()  # it stops now
        await ctx.query("select 'the last line'")
        finished.set()

    async with Worker(dsn, [write_report], schema=schema).start():
        await client.add_job(write_report)
        await started.wait()

    assert finished.is_set()


async def test_a_job_that_does_not_finish_in_time_is_due_again(dsn: str, schema: str, client: Client) -> None:
    """It is cancelled when the grace period ends, and the next worker runs it from the start: no attempt is lost."""
    started = anyio.Event()

    @task
    async def write_report() -> None:
        started.set()
        await anyio.sleep_forever()

    async with Worker(dsn, [write_report], schema=schema, grace=0.05).start():
        added = await client.add_job(write_report)
        await started.wait()
    job = await client.get_job(added.id)

    assert (job.state, job.attempts, job.last_error) == (JobState.AVAILABLE, 0, None)


async def test_a_job_runs_on_one_of_many_workers(dsn: str, schema: str, client: Client) -> None:
    """Workers of one schema share its jobs, in one process or on many machines; none runs twice."""
    ran: list[int] = []

    @task
    async def count(number: int) -> None:
        ran.append(number)

    async with (
        Worker(dsn, [count], schema=schema).start(),
        Worker(dsn, [count], schema=schema).start(),
    ):
        await client.add_jobs([count.job(number) for number in range(200)])
        await wait_until(lambda: len(ran) >= 200, description="200 jobs")

    assert sorted(ran) == list(range(200))


async def test_options_are_checked_when_the_worker_is_made(dsn: str) -> None:
    """They fail before the first job."""
    with pytest.raises(ConfigurationError, match="concurrency must be a whole number from 1"):
        Worker(dsn, [], concurrency=0)


async def test_two_tasks_cannot_share_a_name(dsn: str) -> None:
    """Which of them should run the job?"""

    @task(name="greet")
    async def greet() -> None:
        pass

    @task(name="greet")
    async def greet_again() -> None:
        pass

    with pytest.raises(TaskError, match="two tasks are called 'greet'"):
        Worker(dsn, [greet, greet_again])

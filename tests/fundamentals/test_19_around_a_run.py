"""What runs around jobs: a lifespan, resources, and middleware of runs and adds."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from asyncq import Add, Added, Call, Client, JobSpec, RunInfo, Worker, resource, task, use


async def test_a_lifespan_runs_around_a_worker(dsn: str, schema: str, client: Client) -> None:
    """What it opens is there before the first job, and until after the last one."""
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(worker: Worker) -> AsyncGenerator[None]:
        steps.append("open")
        yield
        steps.append("close")

    @task
    async def greet(name: str) -> None:
        steps.append(name)

    await client.add_job(greet, "Ada")
    await Worker(dsn, [greet], schema=schema, lifespan=lifespan).run_once()

    assert steps == ["open", "Ada", "close"]


async def test_a_handler_takes_a_resource(dsn: str, schema: str, client: Client) -> None:
    """It is opened once for all jobs, and is no part of their payload."""
    steps: list[str] = []

    @resource
    async def open_phone() -> AsyncGenerator[str]:
        steps.append("open")
        yield "phone"
        steps.append("close")

    @task
    async def call(name: str, phone: str = use(open_phone)) -> None:
        steps.append(f"{phone} {name}")

    await client.add_jobs([call.job("Ada"), call.job("Bob")])
    await Worker(dsn, [call], schema=schema, concurrency=1).run_once()

    assert steps == ["open", "phone Ada", "phone Bob", "close"]


async def test_middleware_runs_around_handlers(dsn: str, schema: str, client: Client) -> None:
    """It can measure runs, and refuse them: what it raises is what the handler raised."""
    steps: list[str] = []

    async def measured(run: RunInfo, call: Call) -> Any:
        steps.append(f"{run.task} begins")
        answer = await call()
        steps.append(f"{run.task} ends")
        return answer

    @task
    async def greet(name: str) -> None:
        steps.append(name)

    await client.add_job(greet, "Ada")
    await Worker(dsn, [greet], schema=schema, middleware=[measured]).run_once()

    assert steps == ["greet begins", "Ada", "greet ends"]


async def test_middleware_of_a_client_runs_around_adds(dsn: str, schema: str) -> None:
    """Each job may get what all jobs need, such as the id of a trace."""

    async def traced(specs: Sequence[JobSpec], add: Add) -> list[Added]:
        return await add([spec.with_options(meta={"trace": "4711"}) for spec in specs])

    async with Client(dsn, schema=schema, middleware=[traced]) as client:
        added = await client.add_job("greet", {"name": "Ada"})
        job = await client.get_job(added.id)

    assert job.meta == {"trace": "4711"}

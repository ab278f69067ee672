"""The function of a task: async or plain, and its surroundings while it runs."""

import asyncio
import threading
from contextvars import ContextVar

from asyncq import Client, JobContext, task
from asyncq.testing import run_due

user: ContextVar[str] = ContextVar("user", default="nobody")


async def test_a_plain_function_runs_in_a_thread(dsn: str, schema: str, client: Client) -> None:
    """It may block: the event loop and all other jobs go on meanwhile."""
    threads: list[int] = []
    goes_on = threading.Event()

    @task
    def resize(image: str) -> None:
        threads.append(threading.get_ident())
        assert goes_on.wait(5)

    @task
    async def tick() -> None:
        goes_on.set()

    await client.add_job(resize, "cat.png")
    await client.add_job(tick)
    ran = await run_due(dsn, [resize, tick], schema=schema)

    assert len(ran.completed) == 2
    assert threads != [threading.get_ident()]


async def test_a_plain_function_takes_payload_and_context_like_an_async_one(
    dsn: str, schema: str, client: Client
) -> None:
    """It may read the context; its coroutines (query, add_job) belong to the event loop."""
    seen: list[tuple[str, int]] = []

    @task
    def resize(image: str, ctx: JobContext) -> None:
        seen.append((image, ctx.job.id))

    added = await client.add_job(resize, "cat.png")
    await run_due(dsn, [resize], schema=schema)

    assert seen == [("cat.png", added.id)]


async def test_each_handler_has_context_variables_of_its_own(dsn: str, schema: str, client: Client) -> None:
    """Variables that one job sets are not visible to the next one."""
    found: list[str] = []

    @task
    async def act(name: str) -> None:
        found.append(user.get())
        user.set(name)

    await client.add_job(act, "ada")
    await client.add_job(act, "bob")
    await run_due(dsn, [act], schema=schema, concurrency=1)

    assert found == ["nobody", "nobody"]


async def test_each_handler_runs_in_an_asyncio_task_of_its_own(dsn: str, schema: str, client: Client) -> None:
    """`asyncio.timeout`, task groups and cancelling work as anywhere; a timeout that ends is an error like another."""

    @task
    async def hurry() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    added = await client.add_job(hurry)
    ran = await run_due(dsn, [hurry], schema=schema)

    assert ran.errors[added.id].startswith("TimeoutError")


async def test_the_return_value_of_a_handler_that_nobody_awaits_is_not_kept(
    dsn: str, schema: str, client: Client
) -> None:
    """It is stored only for a caller who waits for the job. The event `ResultIgnored` reports it once for each task."""

    @task
    async def count() -> int:
        return 7

    added = await client.add_job(count)
    ran = await run_due(dsn, [count], schema=schema)

    assert ran.completed == [added.id]

"""Steps: a handler that runs again goes on behind what it has done."""

from typing import Any

import pytest

from asyncq import Client, ConstantRetry, JobContext, Step, task
from asyncq.testing import run_due


async def test_a_retry_gets_what_a_step_returned(dsn: str, schema: str, client: Client) -> None:
    """The function is called once; the value is that of its JSON, at the first run as at the second one."""
    called: list[str] = []
    found: list[Any] = []

    async def create(name: str) -> tuple[str, int]:
        called.append(name)
        return (name, 1)

    @task(retry=ConstantRetry(0))
    async def onboard(user: str, ctx: JobContext) -> None:
        found.append(await ctx.step("account", create, user))
        if ctx.attempt == 1:
            raise ConnectionError("the mail server is away")

    added = await client.add_job(onboard, "ada")
    ran = await run_due(dsn, [onboard], schema=schema)

    assert (ran.retried, ran.completed) == ([added.id], [added.id])
    assert (["ada"], [["ada", 1], ["ada", 1]]) == (called, found)


async def test_writes_and_their_step_are_one_commit(dsn: str, schema: str, client: Client) -> None:
    """The function gets a connection in a transaction, which is committed with the step."""

    async def book(connection: Any, user: str) -> int:
        await connection.execute(f"create table {schema}.booked (name text)")
        await connection.execute(f"insert into {schema}.booked values ($1)", user)
        return 7

    @task(retry=ConstantRetry(0))
    async def onboard(user: str, ctx: JobContext) -> None:
        booked = await ctx.tx_step("bill", book, user)
        names = await ctx.query(f"select name from {schema}.booked")
        assert (7, ["ada"]) == (booked, [row["name"] for row in names])
        if ctx.attempt == 1:
            raise ConnectionError("the mail server is away")

    added = await client.add_job(onboard, "ada")
    ran = await run_due(dsn, [onboard], schema=schema)

    assert (ran.retried, ran.completed) == ([added.id], [added.id])


async def test_a_name_is_used_once_in_a_run(dsn: str, schema: str, client: Client) -> None:
    """The second call would get what the first one returned."""

    async def nothing() -> None: ...

    @task(retry=ConstantRetry(3600))
    async def onboard(ctx: JobContext) -> None:
        await ctx.step("mail", nothing)
        await ctx.step("mail", nothing)

    added = await client.add_job(onboard)
    ran = await run_due(dsn, [onboard], schema=schema)

    assert ran.errors[added.id].startswith("TaskError: step 'mail' was called before in this run")


async def test_others_see_which_steps_are_done(dsn: str, schema: str, client: Client) -> None:
    """With the time of each; not what they returned."""

    async def nothing() -> None: ...

    @task(retry=ConstantRetry(3600))
    async def onboard(ctx: JobContext) -> None:
        await ctx.step("account", nothing)
        await ctx.step("mail", nothing)
        raise ConnectionError("away")

    added = await client.add_job(onboard)
    await run_due(dsn, [onboard], schema=schema)
    steps = (await client.get_job(added.id)).steps

    assert ["account", "mail"] == [step.name for step in steps]
    assert all(isinstance(step, Step) and step.at.tzinfo is not None for step in steps)


@pytest.mark.parametrize("kind", ["transactional", "plain"])
async def test_where_a_step_is_refused(dsn: str, schema: str, client: Client, kind: str) -> None:
    """A transactional task is committed as a whole; a plain function cannot await."""

    async def nothing() -> None: ...

    if kind == "plain":

        @task(name="refused", retry=ConstantRetry(3600))
        def handler(ctx: JobContext) -> None:
            ctx.step("mail", nothing)  # type: ignore[unused-coroutine]

    else:

        @task(name="refused", retry=ConstantRetry(3600), transactional=True)
        async def handler(ctx: JobContext) -> None:
            await ctx.step("mail", nothing)

    added = await client.add_job(handler)
    ran = await run_due(dsn, [handler], schema=schema)
    said = {
        "plain": "ConfigurationError: ctx.step() must be awaited; in a plain function: anyio.from_thread.run(ctx.step,",
        "transactional": "TaskError: task 'refused' is transactional, so that ctx.step has no use",
    }

    assert ran.errors[added.id].startswith(said[kind])

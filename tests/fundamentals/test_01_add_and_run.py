"""Define a task, add a job of it, run it.

`dsn` is a database, `schema` a schema of the test's own, `client` an open `Client` of both; they are fixtures in
tests/conftest.py. `run_due` runs what is due and returns; a service keeps a `Worker` running instead, see
test_13_workers.py.
"""

import asyncpg
import pytest

import asyncq
from asyncq import Client, JobNotFound, JobState, UnknownTask, task
from asyncq.testing import run_due


async def test_a_job_runs_its_tasks_function(dsn: str, schema: str, client: Client) -> None:
    """A task is a decorated function. A job is a call of it that is stored in PostgreSQL; a worker makes the call."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema)

    assert greeted == ["Ada"]


async def test_a_task_can_still_be_called_like_a_function() -> None:
    """Nothing is stored then, and no worker is needed: business rules are tested like any function."""

    @task
    async def double(number: int) -> int:
        return 2 * number

    assert await double(21) == 42


async def test_a_job_is_made_with_the_arguments_of_a_call(dsn: str, schema: str, client: Client) -> None:
    """`task.job(...)` takes what the function takes, by position or by name; type checkers know the parameters."""
    greeted: list[str] = []

    @task
    async def greet(name: str, greeting: str = "Hello") -> None:
        greeted.append(f"{greeting}, {name}")

    await client.add_job(greet.job("Ada"))
    await client.add_job(greet.job(name="Bob", greeting="Welcome"))
    await run_due(dsn, [greet], schema=schema, concurrency=1)

    assert greeted == ["Hello, Ada", "Welcome, Bob"]


async def test_a_job_can_be_added_by_name(dsn: str, schema: str, client: Client) -> None:
    """A service that adds jobs need not import the code that runs them: a name and a JSON object are enough."""
    greeted: list[str] = []

    @task(name="welcome/greet")
    async def greet(name: str) -> None:
        greeted.append(name)

    await client.add_job("welcome/greet", {"name": "Ada"})
    await run_due(dsn, [greet], schema=schema)

    assert greeted == ["Ada"]


async def test_a_job_can_be_added_in_sql(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """From psql, a trigger or any language: `select asyncq.add_job('greet', '{"name": "Ada"}')`."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    await db.execute(f"""select {schema}.add_job('greet', '{{"name": "Ada"}}')""")
    await run_due(dsn, [greet], schema=schema)

    assert greeted == ["Ada"]


async def test_many_jobs_are_added_in_one_round_trip(dsn: str, schema: str, client: Client) -> None:
    """All jobs are added or none. Their ids have the order of the list, and so have their runs."""
    greeted: list[str] = []

    @task
    async def greet(name: str) -> None:
        greeted.append(name)

    added = await client.add_jobs([greet.job(name) for name in ("Ada", "Bob", "Cleo")])
    ran = await run_due(dsn, [greet], schema=schema, concurrency=1)

    assert greeted == ["Ada", "Bob", "Cleo"]
    assert ran.completed == [one.id for one in added]


async def test_a_script_can_add_one_job_without_a_client(dsn: str, schema: str, client: Client) -> None:
    """It connects, adds and disconnects; a service keeps a `Client`, which is many times as fast."""
    added = await asyncq.add_job(dsn, "greet", {"name": "Ada"}, schema=schema)

    assert (await client.get_job(added.id)).task == "greet"


async def test_a_waiting_job_can_be_read(client: Client) -> None:
    """A waiting job is a row that anybody can read."""
    added = await client.add_job("greet", {"name": "Ada"})

    job = await client.get_job(added.id)

    assert (job.task, job.payload, job.state) == ("greet", '{"name":"Ada"}', JobState.AVAILABLE)
    assert (job.queue, job.priority, job.attempts, job.max_attempts) == (None, 0, 0, 25)


async def test_a_job_that_ended_well_is_deleted(dsn: str, schema: str, client: Client) -> None:
    """The table holds jobs that are still to be done."""

    @task
    async def greet(name: str) -> None:
        pass

    added = await client.add_job(greet, "Ada")
    await run_due(dsn, [greet], schema=schema)

    with pytest.raises(JobNotFound):
        await client.get_job(added.id)


async def test_a_worker_leaves_jobs_of_other_tasks_alone(dsn: str, schema: str, client: Client) -> None:
    """They wait for a worker that knows their task; that is how work is divided among services."""

    @task
    async def greet(name: str) -> None:
        pass

    added = await client.add_job("make_coffee", {})
    ran = await run_due(dsn, [greet], schema=schema)

    assert ran.started == []
    assert (await client.get_job(added.id)).state == JobState.AVAILABLE


async def test_a_client_that_knows_its_tasks_refuses_unknown_names(dsn: str, schema: str) -> None:
    """A misspelt name would wait for ever. A client with tasks suggests the right one."""

    @task
    async def greet(name: str) -> None:
        pass

    async with Client(dsn, schema=schema, tasks=[greet]) as client:
        with pytest.raises(UnknownTask, match="did you mean 'greet'"):
            await client.add_job("gret", {"name": "Ada"})

"""A caller can wait for a job, and gets what its handler returned."""

import msgspec
import pytest

from asyncq import Client, JobFailedError, JobState, WaitTimeout, Worker, task


class Page(msgspec.Struct):
    title: str


@task
async def parse(url: str) -> Page:
    """Make a page."""
    return Page(title=url.upper())


@task(max_attempts=1)
async def fail() -> None:
    """Have no attempt left."""
    raise ValueError("no such page")


async def test_run_adds_a_job_and_returns_its_result(dsn: str, schema: str, client: Client) -> None:
    """It is a `Page` again, for the type checker too."""
    async with Worker(dsn, [parse], schema=schema).start():
        page = await client.run(parse.job(url="a"), timeout=30)

    assert page.title == "A"


async def test_the_error_of_a_failed_job_is_a_text(dsn: str, schema: str, client: Client) -> None:
    """The class of the exception may not exist in the client."""
    async with Worker(dsn, [fail], schema=schema).start():
        with pytest.raises(JobFailedError) as raised:
            await client.run(fail.job(), timeout=30)

    assert raised.value.error.startswith("ValueError: no such page")


async def test_any_job_can_be_awaited_by_its_id(dsn: str, schema: str, client: Client) -> None:
    """The wait ends with a timeout, and the job does not."""
    added = await client.add_job(parse, "a", keep="1 h")
    with pytest.raises(WaitTimeout):
        await client.wait_for(added.id, timeout="10 ms")
    async with Worker(dsn, [parse], schema=schema).start():
        ended = await client.wait_for(added.id, timeout="30 s")

    assert (ended.state, ended.result) == (JobState.COMPLETED, '{"title":"A"}')

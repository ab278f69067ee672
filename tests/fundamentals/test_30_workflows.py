"""Jobs that take each other's results: chains and groups."""

import msgspec
import pytest

from asyncq import Client, InvalidJob, Worker, chain, group, task


class Page(msgspec.Struct):
    title: str


@task
async def fetch(url: str) -> str:
    """Read a page."""
    return f"<{url}>"


@task
async def parse(text: str) -> Page:
    """Make a page of a text."""
    return Page(title=text.upper())


@task(keep="1 h")
async def store(page: Page) -> str:
    """Store a page."""
    return f"stored {page.title}"


@task(keep="1 h")
async def join(parts: list[str]) -> str:
    """Join texts."""
    return " ".join(parts)


async def test_each_job_of_a_chain_takes_the_result_of_the_one_before(dsn: str, schema: str, client: Client) -> None:
    """Only the result of the last one is kept."""
    handle = await client.add_workflow(chain(fetch.job(url="a"), parse, store))
    async with Worker(dsn, [fetch, parse, store], schema=schema).start():
        result = await handle.result(timeout=30)

    assert result == "stored <A>"


async def test_a_job_takes_the_results_of_a_group_in_its_order(dsn: str, schema: str, client: Client) -> None:
    """A group has jobs and chains."""
    members = [fetch.job(url="a"), chain(fetch.job(url="b"), fetch), fetch.job(url="c")]
    handle = await client.add_workflow(group(members).then(join))
    async with Worker(dsn, [fetch, join], schema=schema).start():
        result = await handle.result(timeout=30)

    assert result == "<a> <<b>> <c>"


async def test_a_group_of_none_has_no_results(dsn: str, schema: str, client: Client) -> None:
    """Its callback is due at once."""
    handle = await client.add_workflow(group([]).then(join))
    async with Worker(dsn, [join], schema=schema).start():
        assert await handle.result(timeout=30) == ""


async def test_a_job_that_could_be_another_one_is_in_no_workflow() -> None:
    """Nobody could say for which job the next one waits."""
    with pytest.raises(InvalidJob, match="goes without job_key"):
        chain(fetch.job(url="a").with_options(job_key="k"), parse)

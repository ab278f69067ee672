"""The types of results: from the annotation of the handler to the code that awaits the job.

Lines with `# error:` must be refused.
"""

# ruff: noqa: D103

from typing import Any, assert_type

import msgspec

from asyncq import Added, Client, Ended, Handle, JobContext, JobSpec, Progress, Task, task


class Page(msgspec.Struct):
    title: str


@task
async def parse(url: str) -> Page:
    return Page(url)


@task(queue="pages")
async def parse_later(ctx: JobContext, url: str) -> Page:
    return Page(url)


@task
async def read(page: Page, ctx: JobContext) -> list[str]:
    return [page.title]


@task
def count(text: str) -> int:
    return len(text)


@task(queue="q")
def count_page(page: Page) -> int:
    return len(page.title)


@task
async def anything(payload: Any, ctx: JobContext) -> dict[str, int]:
    return {}


@task
async def silent() -> None: ...


assert_type(parse, Task[[str], Page])  # error: its parameter has a name
assert_type(parse.job("x"), JobSpec[Page])
assert_type(parse_later.job(url="x"), JobSpec[Page])
assert_type(read, Task[[Page], list[str]])
assert_type(count.job("x"), JobSpec[int])
assert_type(count_page.job(Page("x")), JobSpec[int])
anything.job({"a": 1})
assert_type(silent, Task[[], None])
assert_type(parse.job("x").with_options(priority=5), JobSpec[Page])
assert_type(parse.renamed("other").job("x"), JobSpec[Page])


async def handles(client: Client) -> None:
    assert_type(await client.add_job(parse.job("x")), Handle[Page])
    assert_type(await client.add_job(read, Page("x")), Handle[list[str]])
    assert_type(await client.add_job(silent), Handle[None])
    assert_type(await client.add_job("parse", {"url": "x"}), Handle[Any])
    handle = await client.add_job(count, "x")
    assert_type(await handle.result(), int)
    assert_type(await handle.result(timeout=30), int)
    assert_type(await handle.result(timeout="30 s"), int)
    assert_type(await handle.progress(), Progress | None)
    assert_type(handle.id, int)
    added: Added = handle
    wider: Handle[object] = handle
    narrower: Handle[str] = handle  # error: an int is no str
    await handle.result(timeout=[5])  # error: a list is no duration
    print(added, wider, narrower)


async def runs(client: Client) -> None:
    assert_type(await client.run(parse.job("x"), timeout=30), Page)
    assert_type(await client.run(count.job("x").with_options(priority=5)), int)
    assert_type(await client.run(JobSpec(task="parse")), Any)
    await client.run(parse, timeout=30)  # error: a task is no spec
    assert_type(await client.wait_for(5, timeout="1 min"), Ended)
    assert_type((await client.wait_for(5)).result, str | None)


TASKS: list[Task[...]] = [parse, read, count, silent]


def specs(first: JobSpec, second: JobSpec[Page], third: Task[...]) -> list[JobSpec]:
    return [first, second, third.job(), parse.job("x")]

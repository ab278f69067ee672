"""The types of workflows: from the result of each job to the parameter of the next.

Lines with `# error:` must be refused.
"""

# ruff: noqa: D103

from typing import assert_type

import msgspec

from asyncq import Client, Flow, Group, Handle, JobContext, chain, group, task


class Page(msgspec.Struct):
    title: str


@task
async def fetch(url: str) -> str:
    return url


@task
async def parse(text: str) -> Page:
    return Page(text)


@task
async def store(ctx: JobContext, page: Page) -> int:
    return len(page.title)


@task
async def total(counts: list[int]) -> float:
    return float(sum(counts))


assert_type(chain(fetch.job("a"), parse), Flow[Page])
assert_type(chain(fetch.job("a"), parse, store), Flow[int])
assert_type(chain(fetch.job("a")).then(parse).then(store, priority=5, if_failed="cancel"), Flow[int])
assert_type(group([store.job(Page("a"))]), Group[int])
assert_type(group(chain(fetch.job(url), parse, store) for url in "ab").then(total), Flow[float])
assert_type(chain(group([store.job(Page("a"))]).then(total)), Flow[float])
chain(fetch.job("a"), store)  # error: a str is no Page
chain(fetch.job("a"), parse, total)  # error: a Page is no list
chain(fetch, parse)  # error: the first one is a job
chain(fetch.job("a")).then(store)  # error: a str is no Page
chain(fetch.job("a")).then(parse, prioriti=5)  # error: no such option
group([fetch.job("a")]).then(total)  # error: a str is no int
group([store.job(Page("a"))]).then(parse)  # error: a list is no str


async def adds(client: Client) -> None:
    assert_type(await client.add_workflow(chain(fetch.job("a"), parse)), Handle[Page])
    await client.add_workflow(group([fetch.job("a")]))  # error: a group needs a job that follows
    await client.add_workflow(fetch.job("a"))  # error: a job is no workflow

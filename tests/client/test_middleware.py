"""Middleware of a client: it sees each add, may replace its jobs, and leaves none out."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncq import Add, Added, AddMiddleware, Client, ConfigurationError, InvalidJob, JobSpec, StoreUnavailable, task


@task
async def greet(name: str) -> None:
    """Has a payload."""


@task
async def other() -> None:
    """Another one."""


def marking(mark: str, seen: list[str]) -> AddMiddleware:
    """A middleware that appends a mark to the metadata of each job, and notes its results."""

    async def add_mark(specs: Sequence[JobSpec], add: Add) -> list[Added]:
        before = [msgspec.json.decode(spec.meta) if spec.meta else {"marks": ""} for spec in specs]
        marked = [
            spec.with_options(meta={"marks": meta["marks"] + mark}) for spec, meta in zip(specs, before, strict=True)
        ]
        added = await add(marked)
        seen.append(f"{mark} {[each.outcome for each in added]}")
        return added

    return add_mark


async def marks(client: Client, added: Sequence[Added]) -> list[Any]:
    """The metadata of jobs."""
    return [(await client.get_job(each.id)).meta for each in added]


async def test_it_may_replace_the_jobs_of_each_add(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """The first one of the list is the outermost; adds in a transaction of the caller are seen too."""
    seen: list[str] = []
    async with Client(dsn, schema=schema, middleware=[marking("a", seen), marking("b", seen)]) as client:
        one = await client.add_job(greet, "Ada")
        many = await client.add_jobs([greet.job(name="Bob"), other.job()])
        async with db.transaction():
            inside = await client.add_job("other", connection=db)

        assert [{"marks": "ab"}] * 4 == await marks(client, [one, *many, inside])
    assert ["b ['added']", "a ['added']"] == seen[:2]
    assert ["b ['added', 'added']", "a ['added', 'added']"] == seen[2:4]


async def drop(specs: Sequence[JobSpec], add: Add) -> None:
    """Leaves one out."""
    await add(specs[1:])


async def double(specs: Sequence[JobSpec], add: Add) -> None:
    """Adds one more."""
    await add([*specs, *specs])


async def forget(specs: Sequence[JobSpec], add: Add) -> None:
    """Adds nothing."""


async def repeat(specs: Sequence[JobSpec], add: Add) -> None:
    """Adds the jobs twice."""
    await add(specs)
    await add(specs)


async def at_once(specs: Sequence[JobSpec], add: Add) -> None:
    """Adds the jobs twice at the same time, and waits for both."""
    ends = await asyncio.gather(add(specs), add(specs), return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


@pytest.mark.parametrize(
    ("middleware", "expected", "left"),
    [
        (drop, "middleware drop passed on 1 jobs of 2: it may replace jobs, and neither leave one out nor add", 0),
        (double, "middleware double passed on 4 jobs of 2: it may replace jobs", 0),
        (forget, r"middleware forget did not add its jobs: it has to call add\(specs\)", 0),
        (repeat, "middleware repeat added its jobs a second time", 2),
        (at_once, "middleware at_once added its jobs a second time", 2),
    ],
    ids=["drop", "double", "forget", "repeat", "at once"],
)
async def test_the_number_of_jobs_stays_the_same(
    dsn: str, schema: str, db: asyncpg.Connection, middleware: AddMiddleware, expected: str, left: int
) -> None:
    """The caller gets one result for each of its jobs."""
    async with Client(dsn, schema=schema, middleware=[middleware]) as client:
        with pytest.raises(ConfigurationError, match=expected):
            await client.add_jobs([other.job(), other.job()])

    assert left == await db.fetchval(f"select count(*) from {schema}.jobs")


async def test_the_jobs_that_it_passes_on_are_checked(dsn: str, schema: str) -> None:
    """A payload that the handler does not take must not reach the database."""

    async def break_them(specs: Sequence[JobSpec], add: Add) -> list[Added]:
        return await add([msgspec.structs.replace(spec, payload='{"nmae":"Ada"}') for spec in specs])

    async with Client(dsn, schema=schema, tasks=[greet], middleware=[break_them]) as client:
        with pytest.raises(InvalidJob, match="there is no field 'nmae'; did you mean 'name'"):
            await client.add_job(greet, "Ada")


async def test_the_results_are_those_of_the_adds(dsn: str, schema: str) -> None:
    """A middleware that forgets to return them cannot lose them."""

    async def forget_the_result(specs: Sequence[JobSpec], add: Add) -> None:
        await add(specs)

    async with Client(dsn, schema=schema, middleware=[forget_the_result]) as client:
        first = await client.add_job(other, job_key="k")
        second = await client.add_job(other, job_key="k")

    assert (first.id, "added") == (second.id, first.outcome)


async def test_it_may_try_again_after_an_error(dsn: str, schema: str) -> None:
    """The jobs were not added yet."""
    errors: list[Exception] = []

    async def fail_first(specs: Sequence[JobSpec], add: Add) -> list[Added]:
        if not errors:
            raise StoreUnavailable("no server")
        return await add(specs)

    async def try_twice(specs: Sequence[JobSpec], add: Add) -> list[Added]:
        try:
            return await add(specs)
        except StoreUnavailable as error:
            errors.append(error)
            return await add(specs)

    async with Client(dsn, schema=schema, middleware=[try_twice, fail_first]) as client:
        added = await client.add_job(other)
        job = await client.get_job(added.id)

    assert ("other", 1) == (job.task, len(errors))

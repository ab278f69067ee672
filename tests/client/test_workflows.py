"""`add_workflow` of both clients: all jobs or none, and each in its place whatever middleware does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import msgspec
import psycopg
import pytest

from asyncq import Add, Client, ConfigurationError, Flow, InvalidJob, JobSpec, SyncClient, Worker, chain, group, task
from asyncq.domain.codec import Codec
from tests.support.codecs import Backwards
from tests.support.roles import three_roles


@task
async def load(name: str) -> str:
    """Return its argument."""
    return name


@task(keep="1 hour")
async def join(parts: list[str]) -> str:
    """Take them all."""
    return " ".join(parts)


def flow() -> Flow[str]:
    """Two jobs whose results depend on their places, and one that takes both."""
    return group([load.job(name="a"), load.job(name="b")]).then(join)


async def result_of(dsn: str, schema: str, job_id: int) -> str | None:
    """Run all jobs, and read the result of one of them."""
    await Worker(dsn, [load, join], schema=schema).run_once()
    async with Client(dsn, schema=schema) as client:
        return (await client.get_job(job_id)).result


async def by_client(dsn: str, schema: str, middleware: Callable[..., Any]) -> int:
    """Add it with a middleware."""

    async def around(specs: Sequence[JobSpec], add: Add) -> None:
        await add(middleware(specs))

    async with Client(dsn, schema=schema, middleware=[around]) as client:
        return (await client.add_workflow(flow())).id


async def by_sync_client(dsn: str, schema: str, middleware: Callable[..., Any]) -> int:
    """The same without asyncio."""
    jobs = SyncClient(dsn, schema=schema, middleware=[lambda specs, add: add(middleware(specs))])
    return (await asyncio.to_thread(jobs.add_workflow, flow())).id


BOTH = pytest.mark.parametrize("add", [by_client, by_sync_client])


@BOTH
async def test_middleware_may_change_options_of_its_jobs(
    dsn: str, schema: str, add: Callable[..., Awaitable[int]]
) -> None:
    """And payloads, as far as the jobs take none from others."""

    def shout(specs: Sequence[JobSpec]) -> list[JobSpec]:
        copies = [spec.with_options(meta={"mark": 1}, priority=3) for spec in specs]
        return [msgspec.structs.replace(spec, payload=spec.payload.upper().replace("NAME", "name")) for spec in copies]

    assert '"A B"' == await result_of(dsn, schema, await add(dsn, schema, shout))


def turned(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """In another order: places point to other jobs."""
    return [*reversed(specs)]


def swapped(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Two members of a group: nobody waits for a later one, but the results would be in the wrong order."""
    return [specs[1].with_options(priority=1), specs[0].with_options(priority=1), specs[2]]


def replaced(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """A spec that knows of no workflow."""
    return [*specs[:-1], JobSpec(task="join")]


def one_for_another(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Drops a job, and keeps the number."""
    return [specs[1], specs[1], specs[2]]


def waiting_for_less(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Another after."""
    return [*specs[:-1], msgspec.structs.replace(specs[-1], after=specs[-1].after and specs[-1].after[:1])]


@BOTH
@pytest.mark.parametrize("middleware", [turned, swapped, replaced, one_for_another, waiting_for_less])
async def test_middleware_that_moves_jobs_of_a_workflow_is_an_error(
    dsn: str, schema: str, db: asyncpg.Connection, add: Callable[..., Awaitable[int]], middleware: Callable[..., Any]
) -> None:
    """A job would take the result of another one."""
    with pytest.raises(ConfigurationError, match="moved or replaced a job of a workflow, or changed"):
        await add(dsn, schema, middleware)

    assert 0 == await db.fetchval(f"select count(*) from {schema}.jobs")


@BOTH
async def test_middleware_that_drops_a_job_of_a_workflow_is_an_error(
    dsn: str, schema: str, add: Callable[..., Awaitable[int]]
) -> None:
    """As in each add."""
    with pytest.raises(ConfigurationError, match="passed on 2 jobs of 3"):
        await add(dsn, schema, lambda specs: specs[1:])


async def test_a_workflow_is_added_in_the_transaction_of_the_caller(
    dsn: str, schema: str, db: asyncpg.Connection
) -> None:
    """All jobs or none, with both clients."""
    async with Client(dsn, schema=schema) as client:
        transaction = db.transaction()
        await transaction.start()
        await client.add_workflow(flow(), connection=db)
        await transaction.rollback()
    with psycopg.connect(dsn) as connection:
        SyncClient(schema=schema).add_workflow(flow(), connection=connection)
        connection.rollback()
        added = SyncClient(schema=schema).add_workflow(flow(), connection=connection)

    assert 3 == await db.fetchval(f"select count(*) from {schema}.jobs")
    assert '"a b"' == await result_of(dsn, schema, added.id)


@pytest.mark.parametrize(
    ("codec", "is_enqueuer", "said"),
    [
        (None, True, "this role may only call enqueue, which adds no workflow"),
        (Backwards("k1"), False, "which a client with a codec cannot pass on"),
    ],
)
async def test_a_workflow_that_cannot_be_added_is_refused_with_a_sentence(
    dsn: str, codec: Codec | None, is_enqueuer: bool, said: str
) -> None:
    """By both clients, with the code for jobs that wait."""
    async with three_roles(dsn) as roles:
        mine = roles.dsn_of(roles.enqueuer if is_enqueuer else roles.owner)
        async with Client(mine, schema=roles.schema, codec=codec) as client:
            with pytest.raises(InvalidJob, match=said) as first:
                await client.add_workflow(chain(load.job(name="a"), load))
        with pytest.raises(InvalidJob, match=said) as second:
            SyncClient(mine, schema=roles.schema, codec=codec).add_workflow(chain(load.job(name="a"), load))

    assert ["GWBAF"] * 2 == [first.value.code, second.value.code]

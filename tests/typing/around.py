"""The types of lifespans, resources and middleware; lines with `# error:` must be refused."""

# ruff: noqa: D103

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, assert_type

import msgspec

from asyncq import (
    Add,
    Added,
    Call,
    Client,
    JobContext,
    JobSpec,
    Middleware,
    Resource,
    RunInfo,
    Task,
    Worker,
    resource,
    task,
    use,
)


class Pool:
    def execute(self) -> None: ...


class Order(msgspec.Struct):
    item: str


@resource
async def open_pool() -> AsyncGenerator[Pool]:
    yield Pool()


@resource(scope="job")
async def open_session(pool: Pool = use(open_pool)) -> AsyncIterator[list[Pool]]:
    yield [pool]


@resource(scope="run")  # error: no such scope
async def open_run() -> AsyncGenerator[Pool]:
    yield Pool()


@resource  # error: no generator
async def open_nothing() -> Pool:
    return Pool()


assert_type(open_pool, Resource[Pool])
assert_type(open_session, Resource[list[Pool]])
assert_type(use(open_pool), Pool)
assert_type(use(open_session), list[Pool])


# A resource is no required argument


@task
async def ship(order: Order, pool: Pool = use(open_pool)) -> None: ...


@task
async def ship_with_context(order: Order, ctx: JobContext, pool: Pool = use(open_pool)) -> None: ...


@task(queue="mail")
async def context_first(ctx: JobContext, day: str, *, pool: Pool = use(open_pool)) -> None: ...


@task
async def only_a_resource(pool: Pool = use(open_pool)) -> None: ...


@task
async def context_and_resource(ctx: JobContext, session: list[Pool] = use(open_session)) -> None: ...


@task
async def another_type(pool: str = use(open_pool)) -> None: ...  # error: a Pool is no str


assert_type(ship_with_context, Task[[Order], None])
ship.job(Order("tea"))
ship.job("tea")  # error: a str is no Order
ship.job()  # error: no payload
ship_with_context.job(Order("tea"))
context_first.job("today")
context_first.job(day=5)  # error: an int is no str
only_a_resource.job()
context_and_resource.job()


async def adds(client: Client) -> None:
    await client.add_job(ship, Order("tea"))
    await client.add_job(ship, 5)  # error: an int is no Order
    await client.add_job(ship_with_context, Order("tea"))
    await client.add_job(only_a_resource)
    await client.add_job(context_and_resource)


# The lifespan, and overrides


@asynccontextmanager
async def lifespan(worker: Worker) -> AsyncGenerator[Pool]:
    yield Pool()


@asynccontextmanager
async def of_an_app(app: str) -> AsyncGenerator[Pool]:
    yield Pool()


async def no_context_manager(worker: Worker) -> AsyncGenerator[Pool]:
    yield Pool()


Worker("dsn", [ship, only_a_resource], lifespan=lifespan)
Worker("dsn", [ship, only_a_resource], lifespan=of_an_app)  # error: it takes a str
Worker("dsn", [ship, only_a_resource], lifespan=no_context_manager)  # error: not decorated
Worker("dsn", [ship, only_a_resource], overrides={open_pool: Pool()})
Worker("dsn", [ship, only_a_resource], overrides={"open_pool": Pool()})  # error: a name is no resource


# Middleware


async def timed(run: RunInfo, call: Call) -> Any:
    assert_type(run.attempt, int)
    return await call()


async def audited(specs: Sequence[JobSpec], add: Add) -> list[Added]:
    return await add(specs)


def not_async(run: RunInfo, call: Call) -> int:
    return run.attempt


around: list[Middleware] = [timed]
Worker("dsn", [ship, only_a_resource], middleware=[timed])
Worker("dsn", [ship, only_a_resource], middleware=around)
Worker("dsn", [ship, only_a_resource], middleware=[audited])  # error: around adds
Worker("dsn", [ship, only_a_resource], middleware=[not_async])  # error: no coroutine function
Client("dsn", middleware=[audited])
Client("dsn", middleware=[timed])  # error: around runs
task(middleware=[timed])(ship.handler)
task(middleware=[audited])(ship.handler)  # error: around adds

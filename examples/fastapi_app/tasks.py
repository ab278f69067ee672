"""The shop's jobs. The service imports them to add jobs, a worker imports them to run jobs."""

import asyncio
import os
from collections.abc import AsyncGenerator

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from asyncq import JobContext, Task, resource, task, use
from examples.fastapi_app.tables import Mail, make_engine

MAIL_S = float(os.environ.get("SHOP_MAIL_S", "0.1"))


class OrderPlaced(BaseModel, frozen=True):
    """The payload of a job: ids, and values that do not change. The handler reads the rest when it runs."""

    order_id: int
    email: str


@resource
async def open_engine() -> AsyncGenerator[AsyncEngine]:
    """The engine of the worker's handlers: opened with the first job, closed after the last run."""
    engine = make_engine()
    yield engine
    await engine.dispose()


@resource(scope="job")
async def open_session(engine: AsyncEngine = use(open_engine)) -> AsyncGenerator[AsyncSession]:
    """A session for one run, whose transaction is committed if the handler returns."""
    async with AsyncSession(engine) as session, session.begin():
        yield session


@task(max_attempts=5)
async def confirm_order(order: OrderPlaced, ctx: JobContext, session: AsyncSession = use(open_session)) -> None:
    """Mail the customer.

    A job runs at least once: a process can die after the mail, and before the end of the job is stored. A mail service
    with idempotency keys would get the job's id here, which is the same for each attempt.
    """
    ctx.logger.info("mailing order %s", order.order_id)
    await asyncio.sleep(MAIL_S)  # a slow mail service: stop the shop meanwhile, and no mail is lost
    session.add(Mail(job_id=ctx.job.id, order_id=order.order_id, recipient=order.email))


TASKS: list[Task[...]] = [confirm_order]

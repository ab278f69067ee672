"""The shop's jobs. The service imports them to add jobs, a worker imports them to run jobs."""

import asyncio
import os

from pydantic import BaseModel

from asyncq import JobContext, Task, task

MAIL_S = float(os.environ.get("SHOP_MAIL_S", "0.1"))


class OrderPlaced(BaseModel, frozen=True):
    """The payload of a job: ids, and values that do not change. The handler reads the rest when it runs."""

    order_id: int
    email: str


@task(max_attempts=5)
async def confirm_order(order: OrderPlaced, ctx: JobContext) -> None:
    """Mail the customer.

    A job runs at least once: a process can die after the mail, and before the end of the job is stored. A mail service
    with idempotency keys would get the job's id here, which is the same for each attempt.
    """
    ctx.logger.info("mailing order %s", order.order_id)
    await asyncio.sleep(MAIL_S)  # a slow mail service: stop the shop meanwhile, and no mail is lost
    await ctx.query(
        "insert into mails (job_id, order_id, recipient) values ($1, $2, $3)", ctx.job.id, order.order_id, order.email
    )


TASKS: list[Task[...]] = [confirm_order]

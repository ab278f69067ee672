"""The shop's jobs. The service imports them to add jobs, a worker imports them to run jobs."""

import asyncio
import os

import msgspec

from asyncq import JobContext, Task, task

MAIL_S = float(os.environ.get("SHOP_MAIL_S", "0.1"))


class OrderPlaced(msgspec.Struct, frozen=True):
    """What a job carries: ids and what does not change. The rest is read when it runs, and is up to date then."""

    order_id: int
    email: str


@task(max_attempts=5)
async def confirm_order(order: OrderPlaced, ctx: JobContext) -> None:
    """Mail the customer.

    A job runs at least once: a process can die between the mail and the note that the job has ended. A mail service
    that takes an idempotency key would get the job's id here, which is the same for each attempt.
    """
    ctx.logger.info("mailing order %s", order.order_id)
    await asyncio.sleep(MAIL_S)  # the mail service takes its time: stop the shop meanwhile, and no mail is lost
    await ctx.query(
        "insert into mails (job_id, order_id, recipient) values ($1, $2, $3)", ctx.job.id, order.order_id, order.email
    )


TASKS: list[Task[...]] = [confirm_order]

"""A day of the shop, which prints a line for each thing that happens."""

import asyncio
import logging
import os

from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from asyncq import Client, SyncClient, Worker
from examples.life.tasks import CODEC, Order, add_up, announced, charge, opening_hours, send_news, ship

DSN = os.environ["DATABASE_URL"]
ENGINE = create_async_engine(DSN.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)
TASKS = [charge, ship, send_news, add_up]


async def main() -> None:
    client, plain = Client(DSN, codec=CODEC), Client(DSN)
    await client.migrate()
    async with client, plain, Worker(DSN, TASKS, codec=CODEC, middleware=[announced], lifespan=opening_hours).start():
        payment = await client.add_job(charge, Order(item="teapot", count=2))
        while (progress := await payment.progress()) is None:
            await asyncio.sleep(0.1)
        print(f"step {progress.done:.0f} of {progress.total:.0f}: {progress.note}")
        paid = await payment.result(timeout=60)
        print(f"paid: {paid.euros} euros for {paid.count} of {paid.item}")
        job = await client.get_job(payment.id)
        print(f"kept: {job.state} after {job.errors[0].error.splitlines()[0]}, {job.payload}")
        print(f"stored: {(await plain.get_job(payment.id)).payload}")

        async with AsyncSession(ENGINE) as session, session.begin():
            online = await client.add_job(ship, Order(item="cup"), connection=session)
        await asyncio.to_thread(SyncClient(DSN, codec=CODEC).add_job, ship, Order(item="spoon"))
        await online.result(timeout=60)

        await client.run(send_news.job(["Ada", "Bob", "Eve"]), timeout=60)
        print(f"earned: {await client.run(add_up.job([paid, paid]), timeout=60)} euros")


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # the two failed attempts are part of the story
    asyncio.run(main())

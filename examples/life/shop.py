"""A day of the shop, which prints a line for each thing that happens."""

import asyncio
import logging
import os

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncq import Client, SyncClient, Task, Worker
from examples.life.tasks import Order, Zipped, add_up, announced, charge, opening_hours, send_news, ship, take_stock

DSN = os.environ["DATABASE_URL"]


async def main() -> None:
    client = Client(DSN, codec=Zipped())
    engine = create_async_engine(DSN.replace("postgresql://", "postgresql+asyncpg://"))
    tasks: list[Task[...]] = [charge, ship, send_news, add_up, take_stock]
    worker = Worker(DSN, tasks, codec=Zipped(), middleware=[announced], lifespan=opening_hours)
    await client.migrate()

    async with client, worker.start():
        payment = await client.add_job(charge, Order(item="teapot", count=2))
        receipt = await payment.result(timeout=60)
        print(f"paid: {receipt.euros} euros for {receipt.order.count} of {receipt.order.item}")
        job = await client.get_job(payment.id)
        print(f"failed before: {job.errors[0].error.splitlines()[0]}")
        print(f"kept: {job.state}, {job.payload}, {job.result}")
        async with Client(DSN) as without_codec:
            print(f"stored: {(await without_codec.get_job(payment.id)).payload}")

        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("create table if not exists orders (item text)"))
            await session.execute(text("insert into orders values ('cup')"))
            online = await client.add_job(ship, Order(item="cup"), connection=session)
        await asyncio.to_thread(SyncClient(DSN, codec=Zipped()).add_job, ship, Order(item="spoon"))
        await online.result(timeout=60)

        await client.run(send_news.job(["Ada", "Bob", "Eve"]), timeout=60)
        print(f"earned: {await client.run(add_up.job([receipt, receipt]), timeout=60)} euros")

        counting = await client.add_job(take_stock, 600)
        while (progress := await counting.progress()) is None:
            await asyncio.sleep(0.1)
        print(f"counting: {progress.note} of {progress.total:.0f}")
    await engine.dispose()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # the two failed attempts are part of the story
    asyncio.run(main())

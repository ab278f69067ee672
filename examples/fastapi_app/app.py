"""A shop: the request that stores an order adds the job that confirms it, in the same transaction."""

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import asyncpg
from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from asyncq import Client, Worker
from examples.fastapi_app.tasks import TASKS, OrderPlaced, confirm_order

DSN = os.environ.get("DATABASE_URL", "postgresql:///shop")
RUNS_JOBS = os.environ.get("SHOP_WORKER", "1") == "1"
GRACE_S = float(os.environ.get("SHOP_GRACE_S", "25"))

# uvicorn sets up only its own loggers: without this line the worker's log is not shown.
logging.basicConfig(level=logging.INFO, format="%(levelname)-8s %(name)s: %(message)s")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
    """Open the resources of the requests in order; the exit stack closes them in reverse, the worker first."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(DSN))
        await install_tables(pool)
        client = Client(DSN, tasks=TASKS)  # knows its tasks: a misspelled name fails here, not in a worker at night
        await client.migrate()  # safe in many processes at once; a larger shop migrates in its deployment
        await stack.enter_async_context(client)
        if RUNS_JOBS:
            # Signals stay uvicorn's: at SIGTERM it ends the lifespan, and the worker lets running jobs finish.
            await stack.enter_async_context(Worker(DSN, TASKS, grace=GRACE_S).start())
        yield {"pool": pool, "client": client}


async def install_tables(pool: asyncpg.Pool) -> None:
    """Create the shop's tables, if they do not exist."""
    async with pool.acquire() as db, db.transaction():
        # `if not exists` alone does not protect two processes that start at the same time.
        await db.execute("select pg_advisory_xact_lock(hashtext('shop'))")
        await db.execute(Path(__file__).with_name("shop.sql").read_text("utf-8"))


async def connection(request: Request) -> AsyncIterator[asyncpg.Connection]:
    """A connection for one request. The handler opens the transaction: its commit belongs before the response."""
    async with request.state.pool.acquire() as db:
        yield db


async def client(request: Request) -> Client:
    """The client of the service."""
    return request.state.client


Db = Annotated[asyncpg.Connection, Depends(connection)]
Jobs = Annotated[Client, Depends(client)]

app = FastAPI(title="Shop", lifespan=lifespan)


class NewOrder(BaseModel):
    """An order of a customer."""

    item: str
    email: str


@app.post("/orders", status_code=201)
async def place_order(order: NewOrder, db: Db, jobs: Jobs) -> dict[str, int]:
    """Store an order and add its job: both exist after the commit, or neither does."""
    try:
        async with db.transaction():
            order_id = await db.fetchval(
                "insert into orders (item, email) values ($1, $2) returning id", order.item, order.email
            )
            job = await jobs.add_job(confirm_order, OrderPlaced(order_id=order_id, email=order.email), connection=db)
            # The check is last to show this: an error rolls back the order, and the job with it.
            await db.execute("update items set stock = stock - 1 where name = $1", order.item)
    except asyncpg.CheckViolationError:
        raise HTTPException(409, "sold out") from None
    except asyncpg.ForeignKeyViolationError:
        raise HTTPException(404, "no such item") from None
    return {"order_id": order_id, "job_id": job.id}


@app.get("/orders/{order_id}/mails")
async def mails(order_id: int, db: Db) -> list[str]:
    """The recipients of mails about an order."""
    rows = await db.fetch("select recipient from mails where order_id = $1", order_id)
    return [row["recipient"] for row in rows]

"""A shop: the request that stores an order adds the job that confirms it, in the same transaction."""

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from asyncq import Client, Worker
from examples.fastapi_app.tables import DSN, Item, Mail, Order, install_tables, make_engine
from examples.fastapi_app.tasks import TASKS, OrderPlaced, confirm_order

RUNS_JOBS = os.environ.get("SHOP_WORKER", "1") == "1"
GRACE_S = float(os.environ.get("SHOP_GRACE_S", "25"))

# uvicorn sets up only its own loggers: without this line the worker's log is not shown.
logging.basicConfig(level=logging.INFO, format="%(levelname)-8s %(name)s: %(message)s")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
    """Open the resources of the requests in order; the exit stack closes them in reverse, the worker first."""
    async with AsyncExitStack() as stack:
        engine = make_engine()
        stack.push_async_callback(engine.dispose)
        await install_tables(engine)
        client = Client(DSN, tasks=TASKS)  # knows its tasks: a misspelled name fails here, not in a worker at night
        await client.migrate()  # safe in many processes at once; a larger shop migrates in its deployment
        await stack.enter_async_context(client)
        if RUNS_JOBS:
            # Signals stay uvicorn's: at SIGTERM it ends the lifespan, and the worker lets running jobs finish.
            await stack.enter_async_context(Worker(DSN, TASKS, grace=GRACE_S).start())
        yield {"engine": engine, "client": client}


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    """A session for one request. The handler opens the transaction: its commit belongs before the response."""
    async with AsyncSession(request.state.engine) as session:
        yield session


async def client(request: Request) -> Client:
    """The client of the service."""
    return request.state.client


Session = Annotated[AsyncSession, Depends(open_session)]
Jobs = Annotated[Client, Depends(client)]

app = FastAPI(title="Shop", lifespan=lifespan)


class NewOrder(BaseModel):
    """An order of a customer."""

    item: str
    email: str


class PlacedOrder(BaseModel):
    """What the customer gets."""

    order_id: int
    job_id: int


@app.post("/orders", status_code=201)
async def place_order(order: NewOrder, session: Session, jobs: Jobs) -> PlacedOrder:
    """Store an order and add its job: both exist after the commit, or neither does."""
    try:
        async with session.begin():
            placed = Order(item=order.item, email=order.email)
            session.add(placed)
            await session.flush()  # now the order has its id
            payload = OrderPlaced(order_id=placed.id, email=order.email)
            job = await jobs.add_job(confirm_order, payload, connection=session)
            # The check is last to show this: an error rolls back the order, and the job with it.
            await session.execute(update(Item).where(Item.name == order.item).values(stock=Item.stock - 1))
            answer = PlacedOrder(order_id=placed.id, job_id=job.id)
    except IntegrityError as error:
        if "items_in_stock" in str(error.orig):
            raise HTTPException(409, "sold out") from None
        raise HTTPException(404, "no such item") from None
    return answer


@app.get("/orders/{order_id}/mails")
async def mails(order_id: int, session: Session) -> Sequence[str]:
    """The recipients of mails about an order."""
    return (await session.scalars(select(Mail.recipient).where(Mail.order_id == order_id))).all()

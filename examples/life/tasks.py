"""The tasks of a small tea shop, and what its worker needs around them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, PositiveInt

from asyncq import Call, Collect, JobContext, RunInfo, Worker, resource, task, use
from examples.codec.aes_gcm import AesGcm

CODEC = AesGcm({"2027": b"only an example!"}, "2027")


class Order(BaseModel):
    item: str
    count: PositiveInt = 1
    euros: int = 0


@asynccontextmanager
async def opening_hours(worker: Worker) -> AsyncGenerator[None]:
    print("the shop opens")
    yield
    print("the shop closes")


async def announced(run: RunInfo, call: Call) -> Any:
    print(f"run: {run.task}, attempt {run.attempt}")
    return await call()


@resource
async def open_outbox() -> AsyncGenerator[list[str]]:
    outbox: list[str] = []
    yield outbox
    print(f"mailed: {', '.join(outbox)}")


@task(timeout="3 s", retry=[0], keep="1 day")
async def charge(order: Order, ctx: JobContext) -> Order:
    ctx.progress(1, 2, "asking the bank")
    if ctx.attempt == 1:
        await asyncio.sleep(3600)  # the bank does not answer
    return order.model_copy(update={"euros": order.count * 12})


@task(items=True, retry=[0])
async def send_news(names: list[str], ctx: JobContext, outbox: list[str] = use(open_outbox)) -> list[Exception | None]:
    full = {"Bob"} if ctx.attempt == 1 else set[str]()  # whose mailboxes are full
    outbox.extend(name for name in names if name not in full)
    return [OSError(f"the mailbox of {name} is full") if name in full else None for name in names]


@task(collect=Collect(max=2, within="1 min"), keep="1 day")
async def ship(orders: list[Order]) -> None:
    print(f"one parcel: {', '.join(order.item for order in orders)}")


@task(run_in="process")
def add_up(orders: list[Order]) -> int:
    return sum(order.euros for order in orders)

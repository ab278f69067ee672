"""The tasks of a small tea shop, and what its worker needs around them."""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, PositiveInt

from asyncq import Call, Codec, Collect, JobContext, RunInfo, Worker, resource, task, use


class Order(BaseModel):
    item: str
    count: PositiveInt = 1


class Receipt(BaseModel):
    order: Order
    euros: int


class Zipped(Codec):
    key_id = "zlib"

    def encode(self, task: str, data: bytes) -> bytes:
        return zlib.compress(data)

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        return zlib.decompress(data)


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
async def charge(order: Order, ctx: JobContext) -> Receipt:
    if ctx.attempt == 1:
        await asyncio.sleep(3600)  # the bank does not answer
    return Receipt(order=order, euros=order.count * 12)


@task(items=True, retry=[0])
async def send_news(names: list[str], ctx: JobContext, outbox: list[str] = use(open_outbox)) -> list[Exception | None]:
    full = {"Bob"} if ctx.attempt == 1 else set[str]()  # whose mailboxes are full
    outbox.extend(name for name in names if name not in full)
    return [OSError(f"the mailbox of {name} is full") if name in full else None for name in names]


@task(collect=Collect(max=2, within="1 min"), keep="1 day")
async def ship(orders: list[Order]) -> None:
    print(f"one parcel: {', '.join(order.item for order in orders)}")


@task(run_in="process")
def add_up(receipts: list[Receipt]) -> int:
    return sum(receipt.euros for receipt in receipts)


@task
async def take_stock(shelves: int, ctx: JobContext) -> None:
    for shelf in range(shelves):
        if ctx.cancelled.is_set():
            return  # closing time
        ctx.progress(shelf, shelves, f"shelf {shelf}")
        await asyncio.sleep(0.1)

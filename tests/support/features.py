"""The features that can meet on one job, each with its options, and the handlers that the tests of pairs run.

A handler appends a line to a file for each call, so that it counts its calls in any process. Its first calls follow the
script of the payload: "fail", "hang" (too long), "part" (one item fails), "hold" (until it is cancelled). Its later
calls end well.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from asyncq import JobContext

FAIL, HANG, PART, HOLD = "fail", "hang", "part", "hold"


@dataclass
class Order:
    """A payload: its number, the file of calls, and the script."""

    number: int
    log: str
    script: list[str] = field(default_factory=list[str])


class Model(pydantic.BaseModel):
    """The same payload in pydantic."""

    number: int
    log: str
    script: list[str] = []


Payload = Order | Model


def begin(orders: list[Payload]) -> str | None:
    """Record a call, and return its step of the script."""
    first = orders[0]
    path = Path(first.log)
    number = path.read_text().count("begin") if path.exists() else 0
    write(first, f"begin {os.getpid()} {type(first).__name__} {','.join(str(order.number) for order in orders)}")
    return first.script[number] if number < len(first.script) else None


def write(order: Payload, line: str) -> None:
    """Append a line to the file of calls."""
    with Path(order.log).open("a") as file:
        file.write(f"{line}\n")


async def act(orders: list[Payload]) -> list[Exception | int]:
    """Do a step of the script in a coroutine, and return the outcome of each payload."""
    step = begin(orders)
    if step in (HANG, HOLD):
        await asyncio.sleep(60)
    if step == FAIL:
        raise ValueError("it fails")
    await asyncio.sleep(0.01)
    if step == PART:
        return [ValueError("it fails"), *[order.number for order in orders[1:]]]
    write(orders[0], "end")
    return [order.number for order in orders]


def act_now(order: Payload) -> int:
    """Do a step of the script in a process, and return the number."""
    step = begin([order])
    if step in (HANG, HOLD):
        time.sleep(60)
    if step == FAIL:
        raise ValueError("it fails")
    write(order, "end")
    return order.number


def process_order(order: Order) -> int:
    """A handler for a child process."""
    return act_now(order)


def process_model(order: Model) -> int:
    """A handler for a child process."""
    return act_now(order)


def process_steps(order: Order, ctx: JobContext) -> int:
    """A handler for a child process that asks for a context."""
    return act_now(order)

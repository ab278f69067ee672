"""The measured program: that of the suite, and jobs with payloads of any size."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from asyncq import Client, Worker, task
from benchmarks.peers.asyncq import PEER, program, tasks
from benchmarks.peers.role import Adder, Note, Program, Wish, run

MEASURED = replace(PEER, program="benchmarks.scale.program")
BESIDE = 17  # the rest of a payload beside the text


class Parcel(msgspec.Struct):
    """A payload of any size."""

    id: int
    body: str


@task
async def parcel(item: Parcel) -> None:
    """Count the call."""
    tasks.note(item.id)


def body(size: int) -> str:
    """A text that makes a payload of about so many bytes, and cannot be compressed."""
    length = max(size - BESIDE, 0)
    return base64.b64encode(os.urandom(length))[:length].decode()


@asynccontextmanager
async def adder(dsn: str, wish: Wish) -> AsyncGenerator[Adder]:
    """A client."""
    if "bytes" not in wish:
        async with program.adder(dsn, wish) as ours:
            yield ours
        return
    text = body(wish["bytes"])
    async with Client(dsn) as client:

        async def one(number: int) -> None:
            await client.add_job(parcel, Parcel(number, text))

        async def many(numbers: Sequence[int], delay_s: float) -> None:
            await client.add_jobs([parcel.job(Parcel(number, text)) for number in numbers])

        yield Adder(one, many)


async def work(dsn: str, wish: Wish, note: Note) -> None:
    """A worker."""
    logging.basicConfig(level=logging.INFO)
    tasks.note = note
    await Worker(dsn, tasks=[tasks.noop, parcel], **wish.get("options", {})).run()


if __name__ == "__main__":
    run(Program(program.install, adder, work))

"""Tasks that either release runs: `asyncq worker --tasks fleet`. They write into SCHEMA.runs whose code runs them."""

import asyncio
import os
from pathlib import Path
from typing import Any

import asyncq
from asyncq import JobContext, task

PLACE = str(Path(asyncq.__file__).parents[1])


async def note(ctx: JobContext, what: str) -> None:
    """Write a row."""
    statement = f"insert into {os.environ['SCHEMA']}.runs (job_id, place, what) values ($1, $2, $3)"
    await ctx.query(statement, ctx.job.id, PLACE, what)


def may_leave() -> bool:
    """Whether the test has made the file."""
    return Path("leave").exists()


@task
async def step(ctx: JobContext) -> None:
    """The least job."""
    await note(ctx, "ran")


@task
async def slot(payload: dict[str, Any], ctx: JobContext) -> None:
    """A slot of a recurring item."""
    await note(ctx, payload["_cron"]["ts"])


@task
async def hold(ctx: JobContext) -> None:
    """Run until a file says that it may end."""
    await note(ctx, "began")
    while not may_leave():
        await asyncio.sleep(0.01)
    await note(ctx, "ended")

"""A program with workers, for test_log_hint.py: `python log_program.py DSN SCHEMA HOW`."""

import asyncio
import logging
import sys

import anyio

from asyncq import Event, Worker, task


@task
async def hello() -> None:
    """The least job."""


def observe(event: Event) -> None:
    """An observer."""


async def main(dsn: str, schema: str, how: str) -> None:
    """Two workers, one after the other."""
    match how:
        case "basic":
            logging.basicConfig(level=logging.INFO)
        case "null":
            logging.getLogger("asyncq").addHandler(logging.NullHandler())
        case "no stderr":
            sys.stderr = None
        case _:
            pass
    observers = [observe] if how == "observed" else []
    for _ in range(2):
        worker = Worker(dsn, [hello], schema=schema, observers=observers)
        if how == "once":
            await worker.run_once()
        elif how == "run":
            async with anyio.create_task_group() as group:
                group.start_soon(worker.run)
                await anyio.sleep(0.1)
                await worker.stop()
        else:
            async with worker.start():
                pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

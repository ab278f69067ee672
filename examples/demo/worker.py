"""One worker process of the demo: `python -m examples.demo.worker`, with its orders as the first line of its input.

It begins at the second line. The end of the input means that the parent is dead: then this process ends too. If the
server is not a throw-away one, which ends by itself, it first drops the schema.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from typing import NoReturn

import msgspec

from asyncq import AsyncqError, Worker
from examples.demo.crew import Orders
from examples.demo.place import Place, drop
from examples.demo.tasks import TASKS

GRACE_S = 1.0


def main() -> int:
    """Work until SIGTERM, or until the parent is dead.

    Returns:
        The exit code.
    """
    orders_line, begin_line = sys.stdin.buffer.readline(), sys.stdin.buffer.readline()
    if not orders_line.endswith(b"\n"):
        return 1
    orders = msgspec.json.decode(orders_line, type=Orders)
    if not begin_line:
        _end(orders.place)
    threading.Thread(target=_watch, args=(orders.place,), daemon=True).start()
    warnings.simplefilter("ignore")  # those about the syntax of the files that are counted
    worker = Worker(
        orders.place.dsn,
        TASKS,
        schema=orders.place.schema,
        concurrency=orders.concurrency,
        pool_size=orders.concurrency,
        grace=GRACE_S,
    )
    try:
        asyncio.run(worker.run())
    except AsyncqError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _watch(place: Place) -> None:
    """Wait for the end of the input."""
    while os.read(0, 1024):
        continue
    _end(place)


def _end(place: Place) -> NoReturn:
    """End at once, because the parent is dead and nobody needs the running jobs."""
    try:
        if not place.is_ours:
            asyncio.run(drop(place))
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())

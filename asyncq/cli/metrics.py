"""`asyncq metrics`: print the metrics of the store, or serve them for Prometheus."""

import argparse
import asyncio
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from asyncq.cli.failures import INTERRUPTED
from asyncq.cli.finish import finish
from asyncq.cli.parsing import Commands, add_command, ask, dsn_of
from asyncq.client import Client
from asyncq.domain.errors import AsyncqError
from asyncq.domain.http_address import HttpAddress, http_address
from asyncq.engine.probes.server import Answer, HttpServer, text_answer

T = TypeVar("T")

READ_S = 10.0  # how long the database may take

PURPOSE = """\
Print the metrics of the store in the text format of Prometheus.

With --http HOST:PORT it serves them at /metrics, until it is stopped, and at
/backlog the number of due and running jobs, for autoscalers. Each request reads
the database; one that takes longer than 10 s is answered with 503. The numbers
are those of the whole schema, so run one such command for it. A worker with
--http shows its own numbers."""

EXAMPLES = """\
  asyncq metrics
  asyncq metrics --http 127.0.0.1:9187
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "metrics", run, purpose=PURPOSE, examples=EXAMPLES)
    parser.add_argument("--http", metavar="HOST:PORT", help="serve them there (default: print them)")


def run(options: argparse.Namespace) -> int:
    """Print the metrics, or serve them until the command is interrupted."""
    from asyncq.metrics import store_metrics

    if options.http is None:
        page, _ = ask(options, store_metrics)
        print(page.decode(), end="")
        return 0
    try:
        finish(serve(dsn_of(options), options.schema, http_address(options.http)))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


async def serve(dsn: str, schema: str, http: HttpAddress) -> None:
    """Serve the metrics of a store until cancelled."""
    from asyncq.metrics import store_metrics

    loop, one = asyncio.get_running_loop(), threading.Lock()

    async def limited(reading: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(READ_S):
            return await reading

    def ask_loop(reading: Coroutine[Any, Any, T]) -> T | Answer:
        with one:  # All requests share one connection.
            try:
                return asyncio.run_coroutine_threadsafe(limited(reading), loop).result()
            except TimeoutError:
                return text_answer(503, f"the database did not answer within {READ_S:g} s")
            except AsyncqError as error:
                return text_answer(503, str(error))

    def metrics(accept: str) -> Answer:
        page = ask_loop(store_metrics(client, accept))
        return page if isinstance(page, Answer) else Answer(200, *page)

    def backlog(_: str) -> Answer:
        jobs = ask_loop(client.admin.backlog())
        return jobs if isinstance(jobs, Answer) else Answer(200, f'{{"jobs": {jobs}}}\n'.encode(), "application/json")

    async with Client(dsn, schema=schema, pool_size=1) as client:
        server = HttpServer(
            http, {"/metrics": metrics, "/backlog": backlog, "/healthz": lambda _: text_answer(200, "ok")}
        )
        thread = threading.Thread(target=server.serve_forever, name="asyncq metrics", daemon=True)
        thread.start()
        print(f"metrics: http://{server.address}/metrics", file=sys.stderr, flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            server.shutdown()
            server.close()

"""Calls of a client: for commands that need one call."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from asyncq.cli.parsing import dsn_of
from asyncq.client import Client

AnswerT = TypeVar("AnswerT")


def ask(options: argparse.Namespace, question: Callable[[Client], Awaitable[AnswerT]]) -> AnswerT:
    """Call a client of the database that the command line, or the environment, names."""

    async def answer() -> AnswerT:
        async with Client(dsn, schema=options.schema, pool_size=1) as client:
            return await question(client)

    dsn = dsn_of(options)
    return asyncio.run(answer())

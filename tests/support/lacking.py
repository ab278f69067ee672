"""Servers that lack a feature: a real one behind a proxy that changes a statement, or one with other functions."""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg

from tests.support.wire import Message, Messages


@asynccontextmanager
async def server_that_reads(dsn: str, text: str, instead: str) -> AsyncGenerator[str]:
    """A server behind a proxy that replaces some statements.

    Args:
        dsn: The real server.
        text: The text that those statements contain.
        instead: The statement that replaces them.

    Yields:
        Its DSN.
    """
    parts = urlsplit(dsn)
    asked = parse_qs(parts.query)
    host = asked.get("host", [parts.hostname or "localhost"])[0]
    port = int(asked.get("port", [str(parts.port or 5432)])[0])

    def changed(message: Message) -> bytes:
        name, rest = (b"", message.body) if message.kind == b"Q" else _split(message.body)
        statement, rest = _split(rest)
        if message.kind not in (b"P", b"Q") or text not in statement.decode():
            return message.raw
        body = (name + b"\0" if message.kind == b"P" else b"") + instead.encode() + b"\0" + rest
        return message.kind + struct.pack("!I", len(body) + 4) + body

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if host.startswith("/"):
            answers, requests = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            answers, requests = await asyncio.open_connection(host, port)
        messages = Messages(starts=True)

        async def pass_on() -> None:
            while data := await reader.read(65536):
                for message in messages.feed(data):
                    requests.write(changed(message) if message.kind in (b"P", b"Q") else message.raw)
            requests.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(pass_on())
            while data := await answers.read(65536):
                writer.write(data)
            writer.close()

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    login = parts.netloc.rpartition("@")[0] or "postgres"
    try:
        yield f"postgresql://{login}@127.0.0.1:{serving.sockets[0].getsockname()[1]}{parts.path}?sslmode=disable"
    finally:
        serving.close()
        await serving.wait_closed()


def _split(body: bytes) -> tuple[bytes, bytes]:
    before, _, rest = body.partition(b"\0")
    return before, rest


@asynccontextmanager
async def database_of_its_own(dsn: str, name: str, change: str) -> AsyncGenerator[str]:
    """A database for as long as the block lasts, whose catalog was changed by a superuser.

    Args:
        dsn: Another database of the server.
        name: Its name.
        change: The statement that the superuser runs in it.

    Yields:
        Its DSN.
    """
    admin = await asyncpg.connect(dsn)
    try:
        await admin.execute(f"create database {name} encoding 'UTF8' template template0")
        where = urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
        changer = await asyncpg.connect(where)
        await changer.execute(change)
        await changer.close()
        try:
            yield where
        finally:
            await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()

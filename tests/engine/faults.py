"""What can go wrong between a worker and its server: ended connections, and links that fail in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import asyncpg


async def terminate(db: asyncpg.Connection, schema: str, role: str) -> int:
    """Let the server end the connections that workers of a schema hold for a role; returns how many there were."""
    sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1"
    return await db.fetchval(sql, f"{schema} {role}")


class Link:
    """A way to the server that a test can break, for the connections of one role or for all.

    Attributes:
        dsn: The DSN that leads through it.
    """

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        asked = parse_qs(parts.query)
        self._host = asked.get("host", [parts.hostname or "localhost"])[0]
        self._port = int(asked.get("port", [str(parts.port or 5432)])[0])
        self._login = f"{parts.username or 'postgres'}" + (f":{parts.password}" if parts.password else "")
        self._name = parts.path.lstrip("/") or "postgres"
        self.dsn = ""
        self._open: dict[asyncio.StreamWriter, bytes] = {}
        self._frozen: set[str] = set()
        self._deaf: set[str] = set()
        self._half_open: set[asyncio.StreamWriter] = set()
        self._refused: set[str] = set()
        self._marker: bytes | None = None
        self.was_cut = asyncio.Event()

    def freeze(self, role: str) -> None:
        """From now on nothing passes, in either direction, on open connections and on new ones."""
        self._frozen.add(role)

    def freeze_open(self, role: str) -> None:
        """Nothing passes any more on the open connections, as when they are half open; new ones work."""
        self._half_open.update(key for key, startup in self._open.items() if self._is({role}, startup))

    def refuse(self, role: str) -> None:
        """From now on connections end as soon as they are opened; open ones end at once."""
        self._refused.add(role)
        self.cut(role)

    def swallow_answers(self, role: str) -> None:
        """From now on what the server answers is lost."""
        self._deaf.add(role)

    def cut_at_answer_with(self, marker: bytes) -> None:
        """Cut the connection, once, before an answer that holds these bytes."""
        self._marker = marker

    def mend(self) -> None:
        """New connections work again; those that were frozen or deaf are cut."""
        broken = self._frozen | self._deaf
        self._frozen.clear()
        self._deaf.clear()
        self._refused.clear()
        for role in broken:
            self.cut(role)

    def cut(self, role: str) -> None:
        """End the connections of a role."""
        for writer, startup in list(self._open.items()):
            if role.encode() in startup:
                writer.close()

    def count(self, role: str) -> int:
        """How many connections of a role are open."""
        return sum(self._is({role}, startup) for startup in self._open.values())

    def _is(self, roles: set[str], startup: bytes) -> bool:
        return any(f" {role}\0".encode() in startup for role in roles)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host.startswith("/"):
            inner, outer = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            inner, outer = await asyncio.open_connection(self._host, self._port)
        self._open[writer] = b""
        try:
            async with asyncio.TaskGroup() as group:
                there = group.create_task(self._requests(reader, outer, writer))
                back = group.create_task(self._answers(inner, writer))
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                back.cancel()
        finally:
            del self._open[writer]
            writer.close()
            outer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, outer: asyncio.StreamWriter, key: asyncio.StreamWriter
    ) -> None:
        while data := await _read(reader):
            if len(self._open[key]) < 1000:
                self._open[key] += data
            if self._is(self._refused, self._open[key]):
                return
            if not (key in self._half_open or self._is(self._frozen, self._open[key]) or outer.is_closing()):
                outer.write(data)

    async def _answers(self, inner: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await _read(inner):
            if self._marker is not None and self._marker in data:
                self._marker = None
                self.was_cut.set()
                return
            lost = writer in self._half_open or self._is(self._frozen | self._deaf, self._open[writer])
            if not (lost or writer.is_closing()):
                writer.write(data)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65536)
    except ConnectionError:
        return b""


@asynccontextmanager
async def link_to(dsn: str) -> AsyncIterator[Link]:
    """A link for as long as the block lasts."""
    link = Link(dsn)
    server = await asyncio.start_server(link._serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        link.dsn = f"postgresql://{link._login}@127.0.0.1:{port}/{link._name}"
        yield link
    finally:
        server.close()
        for writer in list(link._open):
            writer.close()
        while link._open:
            await asyncio.sleep(0.005)

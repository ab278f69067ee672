"""Faults between a worker and its server: ended connections, and links that fail in the middle."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tests.support.wire import CANCEL, ENCRYPTION, Message, Messages, Statements, code, is_commit

# When a connection is cut at a statement: before the server got it; as soon as it was sent, so that nobody knows what
# becomes of it; after the server has run it, so that only the answer is lost.
When = Literal["before", "sent", "after"]
Direction = Literal["requests", "answers"]
BOTH: tuple[Direction, ...] = ("requests", "answers")


async def terminate(db: asyncpg.Connection, schema: str, role: str) -> int:
    """Let the server end the connections that workers of a schema hold for a role; returns how many there were."""
    sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1"
    return await db.fetchval(sql, f"{schema} {role}")


async def terminate_all(db: asyncpg.Connection, schema: str) -> int:
    """Let the server end every connection of workers and clients of a schema; returns how many there were."""
    sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name ^@ $1"
    return await db.fetchval(sql, f"{schema} ")


class _Cut(NamedTuple):
    """A planned cut."""

    role: str
    when: When
    at: Callable[[str], bool]


class _Way:
    """One connection through a link."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.startup = b""
        self.key = b""
        self.half_open = False
        self.held: set[Direction] = set()
        self.ended = asyncio.Event()
        self.commits = False  # COMMIT was sent, and not answered.
        self.cut: _Cut | None = None  # The statement was sent at which this connection is to be cut.

    def is_of(self, role: str) -> bool:
        """Whether the connection is for a role; every one is for the role without a name."""
        return not role or f" {role}\0".encode() in self.startup


class Link:
    """A way to the server that a test can break, for the connections of one role, or of all: the role "".

    Attributes:
        dsn: The DSN that leads through it.
        was_cut: Set when a connection was cut at a statement or at an answer.
        cuts: How many connections were cut at a statement, by when.
        lost_commits: How many connections ended, for any reason, between COMMIT and its answer.
        cancel_requests: How many requests to cancel a statement were passed on.
    """

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        asked = parse_qs(parts.query)
        self._host = asked.get("host", [parts.hostname or "localhost"])[0]
        self._port = int(asked.get("port", [str(parts.port or 5432)])[0])
        self._login = f"{parts.username or 'postgres'}" + (f":{parts.password}" if parts.password else "")
        self._name = parts.path.lstrip("/") or "postgres"
        self.dsn = ""
        self._open: set[_Way] = set()
        self._frozen: set[str] = set()
        self._refused: set[str] = set()
        self._delays: dict[str, float] = {}
        self._held: set[tuple[str, Direction]] = set()
        self._stirred = asyncio.Event()
        self._cuts: list[_Cut] = []
        self._marker: bytes | None = None
        self.was_cut = asyncio.Event()
        self.cuts: Counter[When] = Counter()
        self.lost_commits = 0
        self.cancel_requests = 0

    def freeze(self, role: str) -> None:
        """From now on nothing passes, in either direction, on open connections and on new ones."""
        self._frozen.add(role)

    def freeze_open(self, role: str) -> None:
        """Nothing passes any more on the open connections, as when they are half open; new ones work."""
        for way in self._ways(role):
            way.half_open = True

    def refuse(self, role: str) -> None:
        """From now on connections end as soon as they are opened; open ones end at once."""
        self._refused.add(role)
        self.cut(role)

    def delay(self, role: str, delay_s: float) -> None:
        """From now on everything takes that much longer, in each direction; 0 ends it."""
        self._delays[role] = delay_s

    def hold(self, role: str, *directions: Direction) -> None:
        """From now on what is sent in these directions does not arrive, on open connections and on new ones.

        This is how lost packets look above TCP, which sends them again: all that follows waits with them, and the end
        of a connection too. Then `deliver` lets everything arrive, in order, or `lose` ends the connection. Bytes that
        are missing in the middle do not exist in TCP, and a driver may take what follows them for anything at all.
        """
        self._held |= {(role, direction) for direction in directions}

    def hold_open(self, role: str) -> None:
        """The same in both directions on the connections that are open now: half open for both sides; new ones work."""
        for way in self._ways(role):
            way.held |= {*BOTH}

    def deliver(self, role: str) -> None:
        """Deliver the held messages now, and later ones at once."""
        self._held = {(held, direction) for held, direction in self._held if held != role}
        for way in self._ways(role):
            way.held.clear()
        self._stir()

    def lose(self, role: str) -> None:
        """Drop the held messages: these connections end, for both sides; new ones work."""
        lost = [way for way in self._ways(role) if way.held or self._is_held("", way)]
        self._held = {(held, direction) for held, direction in self._held if held != role}
        for way in lost:
            self._end(way)

    def _end(self, way: _Way) -> None:
        way.writer.close()
        way.ended.set()

    def _stir(self) -> None:
        stirred, self._stirred = self._stirred, asyncio.Event()
        stirred.set()

    def _is_held(self, direction: str, way: _Way) -> bool:
        """Whether data of a connection is held in a direction; "" means either."""
        return any(direction in ("", held) for held in way.held) or any(
            direction in ("", held) and way.is_of(role) for role, held in self._held
        )

    def cut_at_answer_with(self, marker: bytes) -> None:
        """Cut the connection, once, before an answer that holds these bytes."""
        self._marker = marker

    def cut_at_commit(self, role: str, when: When, times: int = 1) -> None:
        """Cut the connection, so many times, where the client sends COMMIT.

        Args:
            role: Of which connections; "" for all.
            when: "before" it reached the server, which rolls back; as soon as it was "sent", outcome unknown; or
                "after" the server has committed, so that the answer is lost.
            times: How many COMMITs are met; each ends one connection.
        """
        self._cuts += [_Cut(role, when, is_commit)] * times

    def cut_at_statement(self, role: str, when: When, text: str, times: int = 1) -> None:
        """Cut the connection, so many times, where the client runs a statement that holds this text; see above."""
        self._cuts += [_Cut(role, when, lambda statement: text in statement)] * times

    def mend(self) -> None:
        """Let new connections work again, cut frozen ones, and cancel planned cuts."""
        broken = set(self._frozen)
        self.lose("")
        for what in (self._frozen, self._held, self._refused, self._delays, self._cuts):
            what.clear()
        for role in broken:
            self.cut(role)

    def cut(self, role: str) -> None:
        """End the connections of a role."""
        for way in self._ways(role):
            self._end(way)

    def count(self, role: str) -> int:
        """How many connections of a role are open."""
        return len(self._ways(role))

    def _ways(self, role: str) -> list[_Way]:
        return [way for way in self._open if way.is_of(role)]

    def _is(self, roles: set[str], way: _Way) -> bool:
        return any(way.is_of(role) for role in roles)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await self._connect()
        except OSError:
            writer.close()  # The server is away: it refuses.
            return
        way = _Way(writer)
        self._open.add(way)
        try:
            async with asyncio.TaskGroup() as group:
                there = group.create_task(self._requests(reader, outer, way))
                back = group.create_task(self._answers(inner, way))
                ended = group.create_task(way.ended.wait())
                await asyncio.wait({there, back, ended}, return_when=asyncio.FIRST_COMPLETED)
                for task in (there, back, ended):
                    task.cancel()
        finally:
            self.lost_commits += way.commits
            self._open.discard(way)
            writer.close()
            outer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _requests(self, reader: asyncio.StreamReader, outer: asyncio.StreamWriter, way: _Way) -> None:
        messages, statements = Messages(starts=True), Statements()
        while data := await self._arrived(reader, way, "requests"):
            to_server, asks = b"", False
            for message in messages.feed(data):
                if not message.kind and code(message) in ENCRYPTION:
                    way.writer.write(b"N")
                    continue
                if not message.kind:
                    self._begin(message, way)
                if (statement := statements.of(message)) is not None:
                    self._meet(statement, way)
                if way.cut is not None and way.cut.when == "before":
                    self._count(way.cut)
                    return
                to_server += message.raw
                asks = message.kind in (b"Q", b"S")  # The server answers now.
            if self._is(self._refused, way):
                return
            await self._pass_on(to_server, outer, way)
            if way.cut is not None and way.cut.when == "sent" and asks:
                self._count(way.cut)
                return

    def _begin(self, message: Message, way: _Way) -> None:
        way.startup = message.body
        if code(message) == CANCEL:
            # It comes on a connection of its own, and shares the fate of the one that it is about.
            meant = next((other for other in self._open if other.key and other.key == message.body[4:]), None)
            way.startup = b"" if meant is None else meant.startup
            self.cancel_requests += 1

    def _meet(self, statement: str, way: _Way) -> None:
        """A statement is about to run: decide whether to cut the connection here."""
        way.commits = way.commits or is_commit(statement)
        cut = next((cut for cut in self._cuts if way.is_of(cut.role) and cut.at(statement)), None)
        if cut is not None and way.cut is None:
            self._cuts.remove(cut)
            way.cut = cut
            way.commits = way.commits and cut.when != "before"

    def _count(self, cut: _Cut) -> None:
        self.cuts[cut.when] += 1
        self.was_cut.set()

    async def _answers(self, inner: asyncio.StreamReader, way: _Way) -> None:
        messages = Messages(starts=False)
        while data := await self._arrived(inner, way, "answers"):
            for message in messages.feed(data):
                if message.kind == b"K":
                    way.key = message.body
                if message.kind == b"Z":
                    if way.cut is not None:
                        self._count(way.cut)
                        return
                    way.commits = False
            if way.cut is not None:
                continue
            if self._marker is not None and self._marker in data:
                self._marker = None
                self.was_cut.set()
                return
            await self._pass_on(data, way.writer, way)

    async def _arrived(self, reader: asyncio.StreamReader, way: _Way, direction: Direction) -> bytes:
        data = await _read(reader)
        while self._is_held(direction, way):
            await self._stirred.wait()
        return data

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter, way: _Way) -> None:
        if delay_s := max((delay_s for role, delay_s in self._delays.items() if way.is_of(role)), default=0.0):
            await asyncio.sleep(delay_s)
        if not (way.half_open or self._is(self._frozen, way) or writer.is_closing()):
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
        # Without TLS: the driver leaves a future behind where a link ends while it asks for that.
        link.dsn = f"postgresql://{link._login}@127.0.0.1:{port}/{link._name}?sslmode=disable"
        yield link
    finally:
        server.close()
        link.cut("")
        while link._open:
            await asyncio.sleep(0.005)

"""Our own connections in a forked child: its copies are closed, and the parent's are as before."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from asyncq.store.database import Database


def fork(look: Any) -> int:
    """Call something in a child; returns its exit code."""
    if (child := os.fork()) == 0:
        code = 99
        try:
            code = look()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sockets() -> int:
    """How many descriptors of this process are sockets."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)


@asynccontextmanager
async def connected(dsn: str, schema: str, kind: str) -> AsyncGenerator[Any]:
    """A connection of ours, by itself or out of a pool."""
    database = Database(f"{dsn}{'&' if '?' in dsn else '?'}statement_cache_size=0" if "pooler" in kind else dsn, schema)
    if "pool " in f"{kind} ":
        async with database.pool("test", 1) as pool, pool.acquire() as connection:
            yield connection
    else:
        connection = await database.connect("test")
        yield connection
        await connection.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("kind", ["connection", "pool", "connection to a pooler", "pool to a pooler"])
def test_a_child_has_no_copy_of_the_socket_and_the_parent_continues(dsn: str, kind: str, loop: str) -> None:
    """The child sends no message over the session of the parent."""

    async def main() -> tuple[int, int]:
        without = sockets()
        async with connected(dsn, "asyncq", kind) as connection:
            return fork(lambda: sockets() - without), await connection.fetchval("select 1")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        assert (0, 1) == runner.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_changes_of_a_childs_copy_do_not_reach_the_server(dsn: str, loop: str) -> None:
    """Even the close of the connection, which sends a message, does not."""

    async def main() -> int:
        async with connected(dsn, "asyncq", "connection") as connection:

            def end() -> int:
                asyncio.new_event_loop().close()
                connection.terminate()
                connection._transport.abort()
                return 0

            assert 0 == fork(end)
            return await connection.fetchval("select 1")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        assert 1 == runner.run(main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_file_that_got_the_number_of_a_closed_connection_stays_open_in_the_child(
    dsn: str, tmp_path: Any, loop: str
) -> None:
    """The connection still exists as an object, and its number is another file's by now."""

    async def main() -> int:
        database = Database(dsn, "asyncq")
        connections = [await database.connect("test") for _ in range(3)]
        transports: list[Any] = [each._transport for each in connections]
        numbers = [transport.get_extra_info("socket").fileno() for transport in transports]
        for connection in connections:
            await connection.close()
        files = [(tmp_path / str(n)).open("w") for n in range(20)]
        try:
            assert set(numbers) <= {file.fileno() for file in files}

            def write() -> int:
                for file in files:
                    file.write("x")
                    file.flush()
                return 0

            fork(write)
            return sum((tmp_path / str(n)).read_text() == "x" for n in range(20))
        finally:
            for file in files:
                file.close()
            assert connections

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        assert 20 == runner.run(main())

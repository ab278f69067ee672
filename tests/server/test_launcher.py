"""A throw-away server: its settings while it runs, and nothing is left of it afterwards."""

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from asyncq.server import Server, ServerFailed, find_binaries, start
from asyncq.server.account import account_to_drop_to, readable_bindir
from tests.server.conftest import Holder, runs


def fetch(server: Server | str, query: str) -> Any:
    """One value from one query over a connection of its own."""

    async def ask() -> Any:
        connection = await asyncpg.connect(server if isinstance(server, str) else server.dsn, timeout=10)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_a_server_answers_with_the_version_that_was_found(server: Server) -> None:
    """The version says which binaries were taken, so that a test run can print it."""
    answered = fetch(server, "show server_version")

    assert server.version == answered.split()[0]
    assert find_binaries() == server.binaries


def test_text_is_utf_8_sorted_by_code_point_and_time_is_utc(server: Server) -> None:
    """Tests must see the same order and the same clock on every machine."""
    query = "select array[current_setting('server_encoding'), ('a' > 'B')::text, extract(timezone from now())::text]"

    answered = fetch(server, query)

    assert ["UTF8", "true", "0"] == [answered[0], answered[1], answered[2].split(".")[0]]


def test_the_folder_and_the_socket_are_private(server: Server) -> None:
    """The server trusts every connection, so no other user may reach its socket."""
    modes = [
        stat.S_IMODE(path.stat().st_mode)
        for path in (server.folder, server.folder / "data", server.folder / ".s.PGSQL.5432")
    ]

    assert [0o700, 0o700, 0o700] == modes


def test_there_is_no_tcp_port(server: Server) -> None:
    """A fixed port would clash with the developer's own server, and any user of the machine could connect."""
    assert fetch(server, "show listen_addresses") == ""


def test_postgres_variables_of_the_user_do_not_bend_the_dsn(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that points at another server must not lead a test or a demo there."""
    for name in ("PGPORT", "PGHOST", "PGDATABASE", "PGUSER"):
        monkeypatch.setenv(name, "1")

    assert fetch(server, "select current_user || '@' || current_database()") == "postgres@postgres"


def test_the_environment_of_the_user_does_not_reach_the_server(server: Server) -> None:
    """Secrets of a shell do not belong there, and a locale or a PG* variable could change what the server does."""
    fetch(server, "create table environment (line text)")
    fetch(server, "copy environment from program 'env'")

    lines = fetch(server, "select string_agg(line, ' ') from environment")
    assert ("TZ=UTC" in lines, "PYTEST_CURRENT_TEST" in lines) == (True, False)


def test_two_servers_run_side_by_side(server: Server) -> None:
    """Two checkouts or test runs must not affect each other."""
    names = "select string_agg(datname, ' ' order by datname) from pg_database where not datistemplate"
    with start() as other:
        fetch(other, "create database only_there")

        assert ["postgres", "only_there postgres"] == [fetch(server, names), fetch(other, names)]


@pytest.fixture(scope="module")
def stopped() -> tuple[Server, list[int]]:
    """A server that was stopped while a connection was open, and the processes that it had."""

    async def stop_while_connected() -> tuple[Server, list[int]]:
        server = start()
        connection = await asyncpg.connect(server.dsn)
        processes = [server.pid or 0, await connection.fetchval("select pg_backend_pid()")]
        server.stop()
        connection.terminate()
        return server, processes

    return asyncio.run(stop_while_connected())


def test_stop_removes_the_folder_and_every_process(stopped: tuple[Server, list[int]]) -> None:
    """Servers that test runs leave behind would fill a developer's machine, even after a forgotten connection."""
    server, processes = stopped

    assert [False, False, False] == [server.folder.exists(), *map(runs, processes)]


def test_stop_twice_does_nothing_the_second_time(stopped: tuple[Server, list[int]]) -> None:
    """A fixture and a `with` block may both stop it."""
    server, _ = stopped

    server.stop()

    assert server.pid is None


def test_a_stopped_server_cannot_be_restarted(stopped: tuple[Server, list[int]]) -> None:
    """Its data is deleted, so the error says so instead of starting an empty server."""
    server, _ = stopped

    with pytest.raises(ServerFailed, match="was stopped before"):
        server.restart()


def test_restart_keeps_the_data_and_the_dsn(server: Server) -> None:
    """Tests of reconnecting need the same server again."""
    fetch(server, "create table restarted as select 7 as number")
    dsn, pid = server.dsn, server.pid

    server.restart()

    assert (dsn, 7) == (server.dsn, fetch(server, "select number from restarted"))
    assert pid != server.pid


def test_a_killed_server_is_down_until_it_restarts_with_all_committed_data(server: Server) -> None:
    """The crash tests rely on this: SIGKILL, and then recovery from the log."""
    fetch(server, "create table crashed as select 7 as number")
    postmaster = server.pid

    server.kill()
    with pytest.raises(OSError, match=r"refused|No such file"):
        fetch(server, "select 1")
    down = (server.pid, runs(postmaster))
    server.restart()

    assert ((None, False), 7) == (down, fetch(server, "select number from crashed"))


def test_a_busy_backend_does_not_outlive_the_crash(server: Server) -> None:
    """A backend in the middle of a query notices the crash late; the restart must not wait for it, nor trip over it."""

    async def kill_during_a_query() -> int:
        connection = await asyncpg.connect(server.dsn)
        backend = await connection.fetchval("select pg_backend_pid()")
        query = asyncio.gather(
            connection.fetchval("select count(*) from generate_series(1, 1e10)"), return_exceptions=True
        )
        await asyncio.sleep(0.05)
        await asyncio.to_thread(server.kill)
        await query
        connection.terminate()
        return backend

    backend = asyncio.run(kill_during_a_query())
    left = runs(backend)
    server.restart()

    assert (False, 1) == (left, fetch(server, "select 1"))


def test_a_killed_server_leaves_no_shared_memory_when_it_is_stopped() -> None:
    """Segments of crashed servers stay until the machine restarts; a hundred crash tests would fill it."""
    table = Path("/proc/sysvipc/shm")
    if not table.exists():
        pytest.skip("this system does not list its shared memory")
    server = start()
    segment = (server.folder / "data/postmaster.pid").read_text().splitlines()[6].split()[1]
    server.kill()

    server.stop()

    assert segment not in [line.split()[1] for line in table.read_text().splitlines()]


def test_settings_reach_the_server() -> None:
    """Benchmarks give it memory, and want their commits on the disk."""
    with start(fsync=True, settings={"shared_buffers": "1MB"}) as server:
        assert ["on", "1MB"] == [fetch(server, f"show {name}") for name in ("fsync", "shared_buffers")]


def test_an_unknown_setting_is_an_error_with_the_message_of_the_server() -> None:
    """The log is removed with the folder, so its last lines must be in the error."""
    with pytest.raises(ServerFailed) as caught:
        start(settings={"shared_bufers": "1GB"})

    assert 'unrecognized configuration parameter "shared_bufers"' in caught.value.log


def test_without_the_locale_c_utf_8_the_server_is_made_with_c(public_folder: Path) -> None:
    """Old systems and macOS do not have it; the encoding and the order are the same."""
    bindir = readable_bindir(find_binaries(), account_to_drop_to())
    (public_folder / "postgres").symlink_to(bindir / "postgres")
    (public_folder / "initdb").write_text(
        f'#!/bin/sh\ncase "$*" in *--locale=C.UTF-8*) exit 1;; esac\nexec {bindir}/initdb "$@"\n'
    )
    (public_folder / "initdb").chmod(0o755)

    with start(binaries=public_folder) as server:
        query = "select array[datctype, pg_encoding_to_char(encoding)] from pg_database where datname = 'postgres'"

        assert fetch(server, query) == ["C", "UTF8"]


def test_a_forked_child_cannot_stop_the_server(hold: Callable[..., Holder]) -> None:
    """multiprocessing forks test processes, and runs their cleanup."""
    holder = hold(extra="if os.fork() == 0: server.stop(); os._exit(0)\nassert os.wait()[1] == 0")

    assert fetch(holder.dsn, "select 1") == 1

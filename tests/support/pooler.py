"""A real PgBouncer before the tests' server, for as long as a test lasts."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from asyncq.server.account import account_to_drop_to
from tests.support.debian import unpacked


def pgbouncer() -> tuple[str, dict[str, str]]:
    """The program, and the variables that it needs: `ASYNCQ_PGBOUNCER`, the path, or Debian's package, fetched for it.

    Where there is none of these, the test is skipped.
    """
    for place in (os.environ.get("ASYNCQ_PGBOUNCER"), shutil.which("pgbouncer"), "/usr/sbin/pgbouncer"):
        if place and os.access(place, os.X_OK):
            return place, {}
    if folder := unpacked("pgbouncer", "libc-ares2", "libevent-2.1-7"):
        libraries = ":".join(str(found) for found in (folder / "usr" / "lib").glob("*-linux-gnu"))
        return str(folder / "usr" / "sbin" / "pgbouncer"), {"LD_LIBRARY_PATH": libraries}
    pytest.skip("there is no pgbouncer here; install Debian's package, or name the program by ASYNCQ_PGBOUNCER")


@contextmanager
def pooler(dsn: str, *, mode: str = "transaction", size: int = 4, in_turn: bool = True) -> Iterator[str]:
    """A pooler before a server.

    Args:
        dsn: The server.
        mode: How it pools.
        size: How many connections of the server it shares among its clients.
        in_turn: Whether it lends its sessions in turn, and not the one that was used last.

    Yields:
        Its DSN, without our own word.
    """
    program, variables = pgbouncer()
    parts = urlsplit(dsn)
    asked = parse_qs(parts.query)
    host = asked.get("host", [parts.hostname or "localhost"])[0]
    port = asked.get("port", [str(parts.port or 5432)])[0]
    name = parts.path.lstrip("/") or "postgres"
    with tempfile.TemporaryDirectory(prefix="asyncq-pooler-") as folder:
        mine = _free_port()
        users = Path(folder, "users.txt")
        users.write_text(f'"{parts.username or "postgres"}" "{parts.password or ""}"\n')
        config = Path(folder, "pgbouncer.ini")
        config.write_text(
            f"""[databases]
{name} = host={host} port={port} dbname={name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {mine}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
server_round_robin = {int(in_turn)}
"""
        )
        os.chmod(folder, 0o755)
        with (
            Path(folder, "log").open("w") as log,
            subprocess.Popen(
                [program, *_as_somebody(), str(config)], stdout=log, stderr=log, env=os.environ | variables
            ) as process,
        ):
            try:
                _wait_for(mine, process, Path(folder, "log"))
                login = f"{parts.username or 'postgres'}" + (f":{parts.password}" if parts.password else "")
                yield f"postgresql://{login}@127.0.0.1:{mine}/{name}"
            finally:
                process.kill()


def pooled(dsn: str) -> str:
    """The same DSN, with the parameter for a pooler."""
    return f"{dsn}{'&' if '?' in dsn else '?'}statement_cache_size=0"


def _as_somebody() -> list[str]:
    """It refuses to run as root; the server's own account can reach its socket."""
    account = account_to_drop_to()
    return [] if account is None else ["-u", account.pw_name]


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(500):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.1).close()
        except OSError:
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        else:
            return
    raise AssertionError(f"pgbouncer did not start: {log.read_text()}")

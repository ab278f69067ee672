"""Start a throw-away PostgreSQL server that is gone when we are: on a unix socket, in a private folder.

Everything that must happen even if we are killed is done by a small process beside us, reaper.py. There is one way out:
the pipe to it closes, because `stop()` closed it or because we are dead.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from asyncq.server import account as accounts
from asyncq.server import folders
from asyncq.server.binaries import Binaries, find_binaries
from asyncq.server.guard import Guard

_SETTINGS = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700", "max_connections": "200"}
_WITHOUT_FSYNC = {"fsync": "off", "full_page_writes": "off"}


class Server:
    """A running throw-away server; `start()` makes it, the end of its `with` block stops it.

    A process that was forked from ours may use `dsn`, and cannot stop the server.
    """

    def __init__(self, binaries: Binaries, folder: Path, guard: Guard, pid: int | None) -> None:
        self._binaries = binaries
        self._folder = folder
        self._guard = guard
        self._pid = pid

    @property
    def dsn(self) -> str:
        """The connection string, complete, so that no PG* variable of the user can bend it."""
        return f"postgresql://postgres@/postgres?host={quote(str(self._folder))}&port=5432"

    @property
    def version(self) -> str:
        """The server's version, such as `18.4`."""
        return self._binaries.version

    @property
    def binaries(self) -> Binaries:
        """Where the server's programs are, and where they came from."""
        return self._binaries

    @property
    def folder(self) -> Path:
        """The private folder of the data, the socket and `server.log`."""
        return self._folder

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster; None after `kill()` and `stop()`."""
        return self._pid

    def kill(self) -> None:
        """Crash the server with SIGKILL, and return when its last process is gone; the data stay.

        Raises:
            ServerFailed: The server was stopped before.
        """
        self._pid = self._guard.ask("kill")

    def restart(self) -> None:
        """Start the server on its data again, after a clean shutdown if it runs; `dsn` stays the same.

        Raises:
            ServerFailed: It did not start; it is stopped and its folder is gone then.
        """
        self._pid = self._guard.ask("restart")

    def stop(self) -> None:
        """Stop the server and remove its folder; calling it again does nothing.

        Raises:
            ServerFailed: Something was left behind.
        """
        self._pid = None
        self._guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def start(
    *,
    binaries: Binaries | str | os.PathLike[str] | None = None,
    fsync: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start a new, empty server, and wait until it accepts connections (about half a second).

    It listens on nothing but a unix socket that only its own account can reach, and trusts every user name. It is gone
    with its data when this process is, however that ends. As root it runs as `postgres` or `nobody`.

    Args:
        binaries: What `find_binaries()` returned, or a folder; default: `find_binaries()`.
        fsync: Whether data reach the disk at each commit, as in production; default False: faster, and enough for a
            crash of the server, not for one of the machine. Benchmarks want True.
        settings: Server settings, such as `{"shared_buffers": "1GB"}`; default: none but 200 connections.

    Returns:
        The server; use it in a `with` statement, or call `stop()`.

    Raises:
        ServerBinariesNotFound: There is no PostgreSQL here.
        ServerFailed: It did not start.
    """
    found = binaries if isinstance(binaries, Binaries) else find_binaries(binaries)
    account = accounts.account_to_drop_to()
    bindir = accounts.readable_bindir(found, account)
    folders.sweep(account)
    folder = folders.create(account)
    plan = {
        "bindir": str(bindir),
        "settings": {**_SETTINGS, **({} if fsync else _WITHOUT_FSYNC), **(settings or {})},
        "user": [account.uid, account.gid] if account else None,
    }
    guard = Guard(folder)
    try:
        pid = guard.ask(json.dumps(plan))
    except BaseException:  # Ctrl-C while it starts: leave nothing behind
        guard.close()
        raise
    return Server(found, folder.path, guard, pid)

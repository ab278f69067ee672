"""Starts a throw-away PostgreSQL server that ends with this process: on a unix socket, in a private folder.

A small process beside it, reaper.py, cleans up even if this process is killed. It begins when its pipe closes, because
`stop()` closed it or because this process is dead.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

from asyncq.server import account as accounts
from asyncq.server import folders
from asyncq.server.binaries import Binaries, find_binaries
from asyncq.server.guard import Guard

_SETTINGS = {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700", "max_connections": "200"}
_WITHOUT_FSYNC = {"fsync": "off", "full_page_writes": "off"}


class Server:
    """A running throw-away server; `start()` makes it, and the end of its `with` block stops it.

    A process that was forked from this one may use `dsn`, and cannot stop the server.

    Attributes:
        binaries: The folder and the origin of the server's programs.
        folder: The private folder of the data, the socket and `server.log`.
        pid: The process id of the postmaster; None after `kill()` and `stop()`.
    """

    def __init__(self, binaries: Binaries, folder: Path, guard: Guard, pid: int | None) -> None:
        self.binaries = binaries
        self.folder = folder
        self._guard = guard
        self.pid = pid

    @property
    def dsn(self) -> str:
        """The complete connection string, which no PG* variable of the user can change."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&port=5432"

    @property
    def version(self) -> str:
        """The server's version, such as `18.4`."""
        return self.binaries.version

    def kill(self) -> None:
        """Crash the server with SIGKILL, and return when its last process has ended; the data stay.

        Raises:
            ServerFailed: The server was stopped before.
        """
        self.pid = self._guard.ask("kill")

    def restart(self) -> None:
        """Start the server on its data again, after a clean shutdown if it runs; `dsn` stays the same.

        Raises:
            ServerFailed: It did not start; it is stopped and its folder is removed.
        """
        self.pid = self._guard.ask("restart")

    def stop(self) -> None:
        """Stop the server and remove its folder; calling it again does nothing.

        Raises:
            ServerFailed: The server or its folder remained.
        """
        self.pid = None
        self._guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    *,
    binaries: Binaries | str | os.PathLike[str] | None = None,
    fsync: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start a new, empty server, and wait until it accepts connections (about half a second).

    It listens only on a unix socket that only its own account can reach, and trusts every user name. It ends and loses
    its data with this process, however that ends. For root it runs as `postgres` or `nobody`.

    Args:
        binaries: A result of `find_binaries()`, or a folder; default: `find_binaries()`.
        fsync: Whether each commit is written to the disk, as in production; default False: faster, and safe for a
            crash of the server, but not of the machine. Benchmarks need True.
        settings: Server settings, such as `{"shared_buffers": "1GB"}`; default: only 200 connections.

    Returns:
        The server; use it in a `with` statement, or call `stop()`.

    Raises:
        ServerBinariesNotFound: No PostgreSQL was found.
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
        "user": [account.pw_uid, account.pw_gid] if account else None,
    }
    guard = Guard(folder)
    try:
        pid = guard.ask(json.dumps(plan))
    except BaseException:  # Ctrl-C while it starts: leave nothing behind
        guard.close()
        raise
    return Server(found, folder.path, guard, pid)

"""A primary with a streaming standby, made by `pg_basebackup`; each can be killed, and the standby promoted."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import asyncpg

from asyncq.server import Server, start

SETTINGS = {"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on", "wal_receiver_status_interval": "1s"}


class Pair:
    """A primary server and its streaming standby.

    Attributes:
        primary: The server that accepts writes.
        standby: The server that follows it.
    """

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def dsn(self) -> str:
        """Leads to whichever can be written to."""
        hosts = ",".join(quote(str(server.folder)) for server in (self.primary, self.standby))
        return f"postgresql://postgres@/postgres?host={hosts}&port=5432,5432&target_session_attrs=read-write"

    def follow(self) -> None:
        """Rebuild the standby as a copy of the primary, and let it follow."""
        self.standby.kill()
        data = self.standby.folder / "data"
        owner = data.stat()
        shutil.rmtree(data)
        tool = self.primary.binaries.bindir / "pg_basebackup"
        where = ["-h", str(self.primary.folder), "-p", "5432", "-U", "postgres", "-D", str(data)]
        subprocess.run(
            [tool, *where, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], check=True, capture_output=True
        )
        for path in (data, *data.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        self.standby.restart()

    def freeze(self) -> None:
        """Stop every process of the primary, as a frozen machine does: it accepts connections and never answers."""
        postmaster = self.primary.pid
        assert postmaster is not None
        os.kill(postmaster, signal.SIGSTOP)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                pid, _, rest = stat.read_text().partition(" (")
                if int(rest.rpartition(") ")[2].split()[1]) == postmaster:
                    os.kill(int(pid), signal.SIGSTOP)

    async def synchronous(self, *, on: bool) -> None:
        """Configure whether a commit waits for the standby."""
        connection = await asyncpg.connect(self.primary.dsn)
        try:
            await connection.execute(f"alter system set synchronous_standby_names = '{'*' if on else ''}'")
            await connection.execute("select pg_reload_conf()")
        finally:
            await connection.close()

    async def promote(self) -> None:
        """Make the standby the primary."""
        connection = await asyncpg.connect(self.standby.dsn)
        try:
            assert await connection.fetchval("select pg_promote()")
        finally:
            await connection.close()


@contextmanager
def streaming_pair() -> Iterator[Pair]:
    """Two running servers, the second one a standby of the first one; both are removed afterwards."""
    with start(settings=SETTINGS) as primary, start(settings=SETTINGS) as standby:
        pair = Pair(primary, standby)
        pair.follow()
        yield pair


def has_pg_basebackup(bindir: Path) -> bool:
    """Whether a copy of a server can be made here; some wheels lack the client programs."""
    return (bindir / "pg_basebackup").exists()

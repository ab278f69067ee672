"""`asyncq dev`: one command with everything, and nothing is left after Ctrl-C."""

import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

from asyncq import Client
from tests.cli.test_migrate import fresh
from tests.cli.test_reload import SAY
from tests.cli.test_worker_group import lives
from tests.support.cli import LIMIT_S, Started, appears, asyncq, started, write

__all__ = ["fresh"]

BIN = os.environ.get("ASYNCQ_PG_BIN")
SERVER = {"ASYNCQ_PG_BIN": BIN} if BIN else {}


def pids_of(process: Started) -> list[int]:
    """The processes that it has started."""
    return [int(pid) for pid in re.findall(r"the (?:worker|dashboard) is process (\d+)", process.log.read_text())]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_without_a_database_a_temporary_server_a_worker_and_the_dashboard_run(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A first step needs one command. All of it ends with the command."""
    write(tmp_path, {"tasks/say.py": SAY.format("one")})

    with started(tmp_path, "dev", "--port", "0", **SERVER) as process:
        dsn = await process.says(r"(?<=DATABASE_URL=')[^']+")
        address = (await process.says(r"http://\S+")).strip()
        async with httpx.AsyncClient(follow_redirects=True, timeout=LIMIT_S) as http:
            assert 200 == (await http.get(address)).status_code
        assert 0 == (await asyncq("add", "say", DATABASE_URL=dsn)).returncode
        await appears(tmp_path / "one")
        write(tmp_path, {"tasks/say.py": SAY.format("two")})
        await process.says("say.py has changed")
        assert 0 == (await asyncq("add", "say", DATABASE_URL=dsn)).returncode
        await appears(tmp_path / "two")
        process.signal(number)
        code = await process.end()

    assert (0, False) == (code, "Traceback" in process.log.read_text())
    assert (3, []) == (len(pids_of(process)), [pid for pid in pids_of(process) if lives(pid)])
    assert 3 == (await asyncq("add", "say", DATABASE_URL=dsn)).returncode


async def test_a_database_that_is_named_is_migrated_and_used(dsn: str, fresh: str, tmp_path: Path) -> None:
    """It stays after the command."""
    write(tmp_path, {"tasks/say.py": SAY.format("one")})
    words = ("--schema", fresh)

    with started(tmp_path, "dev", "--port", "0", *words, DATABASE_URL=dsn) as process:
        await process.says(r"http://\S+")
        added = await asyncq("add", "say", *words, DATABASE_URL=dsn)
        await appears(tmp_path / "one")
        process.signal(signal.SIGINT)
        code = await process.end()
    after = await asyncq("jobs", "counts", *words, DATABASE_URL=dsn)

    assert (0, 0, 0) == (added.returncode, code, after.returncode)
    assert "temporary" not in process.log.read_text()


async def test_ctrl_c_while_the_server_starts_ends_with_0(tmp_path: Path) -> None:
    """A developer may have typed the wrong folder."""
    write(tmp_path, {"tasks/say.py": SAY.format("one")})

    with started(tmp_path, "dev", "--port", "0", **SERVER) as process:
        await process.says("a temporary PostgreSQL")
        process.signal(signal.SIGINT)
        code = await process.end()

    assert (0, False) == (code, "Traceback" in process.log.read_text())


async def test_a_port_in_use_ends_all_with_2(dsn: str, schema: str, client: Client, tmp_path: Path) -> None:
    """Another start would not help, and the worker alone is not what was asked for."""
    write(tmp_path, {"tasks/say.py": SAY.format("one")})

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = await asyncq("dev", "--port", port, "--schema", schema, cwd=tmp_path, DATABASE_URL=dsn)

    assert (2, True) == (done.returncode, f"the dashboard cannot listen on 127.0.0.1:{port}" in done.stderr)

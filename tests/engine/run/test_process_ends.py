"""No process of a handler outlives its worker, however that ends."""

import os
import signal
from pathlib import Path

import pytest

from asyncq import Client
from tests.engine.run.test_processes import ends
from tests.support.cli import appears, started, write

TASKS = """
import ctypes, os
from pathlib import Path
from asyncq import task

def note(name):
    Path("new").write_text(str(os.getpid()))
    Path("new").rename(name)

@task(run_in="process")
def hold() -> None:
    note("hold")
    ctypes.PyDLL(None).sleep(600)  # no other thread runs meanwhile

@task(run_in="process")
def rest() -> None:
    note("rest")
"""


@pytest.mark.leaves_something
async def test_a_killed_worker_leaves_no_process_behind(dsn: str, schema: str, client: Client, tmp_path: Path) -> None:
    """One process is idle. In the other one C code keeps the interpreter's lock, and no Python code runs."""
    write(tmp_path, {"tasks/work.py": TASKS})
    with started(tmp_path, "worker", "--schema", schema, "--task-processes", "2", DATABASE_URL=dsn) as process:
        await client.add_job("hold")
        pids = [int(await appears(tmp_path / "hold"))]
        await client.add_job("rest")
        pids.append(int(await appears(tmp_path / "rest")))
        process.signal(signal.SIGKILL)
        await ends(pids)

    assert len({*pids, os.getpid()}) == 3

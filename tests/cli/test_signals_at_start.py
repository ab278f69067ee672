"""Signals to a worker that has not started, and to a web server in which one runs."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncq import Client
from tests.support.cli import Started, appears, environment, started, write
from tests.support.waiting import wait_until

# The import runs until a signal stops it.
SLOW = """
import time
from pathlib import Path
from asyncq import task

Path("loading").write_text("yes")
time.sleep(60)

@task
async def slow() -> None:
    pass
"""

STUBBORN = """
import time
from pathlib import Path
from asyncq import task

Path("loading").write_text("yes")
try:
    time.sleep(60)
except BaseException:
    pass

@task
async def stubborn() -> None:
    pass
"""

WORKER = [sys.executable, "-m", "asyncq", "worker", "--dsn", "postgresql://nobody@localhost:1/nowhere"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
@pytest.mark.parametrize("module", [SLOW, STUBBORN], ids=["slow", "stubborn"])
async def test_a_signal_while_the_tasks_are_loaded_ends_the_worker(
    tmp_path: Path, number: signal.Signals, module: str
) -> None:
    """Nothing has begun: it ends in order, before it connects."""
    write(tmp_path, {"tasks/one.py": module})
    with started(tmp_path, *WORKER[3:]) as process:
        await appears(tmp_path / "loading")
        process.signal(number)
        code = await process.end()

    assert (0, True) == (code, f"stopped ({number.name}) before the worker started" in process.log.read_text())


@pytest.fixture
def first_process(tmp_path: Path) -> Iterator[Started]:
    """A worker as the first process of a pid namespace, as in a container: the kernel drops unhandled signals."""
    unshare = [shutil.which("unshare") or "unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no pid namespace can be made here")
    write(tmp_path, {"tasks/one.py": SLOW})
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*unshare, *WORKER], cwd=tmp_path, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait(20)


def only_child(parent: int) -> int:
    """The id of the one child of a process."""
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(child)


async def test_a_signal_to_the_first_process_of_a_container_is_not_lost_while_the_tasks_are_loaded(
    first_process: Started, tmp_path: Path
) -> None:
    """A deploy that is rolled back at once would wait for SIGKILL."""
    await appears(tmp_path / "loading")
    os.kill(only_child(first_process.process.pid), signal.SIGTERM)

    assert 0 == await first_process.end()
    assert "stopped (SIGTERM) before the worker started" in first_process.log.read_text()


SERVER = """
import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from asyncq import Worker, task

@task
async def wait() -> None:
    Path("running").write_text("yes")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    Path("done").write_text("yes")

@asynccontextmanager
async def lifespan(app):
    worker = Worker(os.environ["DATABASE_URL"], [wait], schema=os.environ["SCHEMA"])
    running = asyncio.create_task(worker.run())
    yield
    print("lifespan ends", flush=True)
    await running
    print("worker ended", flush=True)

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    async with lifespan(app):
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})

uvicorn.run(app, port=0, lifespan="on", loop=os.environ["LOOP"])
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
async def test_one_signal_ends_a_web_server_in_whose_lifespan_a_worker_runs(
    dsn: str, schema: str, client: Client, tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    """The worker and the server, whose handler was set before, both get it; the running job may finish."""
    await client.add_job("wait")
    with started(tmp_path, program=SERVER, DATABASE_URL=dsn, SCHEMA=schema, LOOP=loop) as process:
        await process.says("Uvicorn running")
        await appears(tmp_path / "running")
        process.signal(number)
        await process.says("lifespan ends")
        (tmp_path / "go").touch()
        await process.says("worker ended")
        await process.end()

    await wait_until((tmp_path / "done").exists, description="the end of the job")

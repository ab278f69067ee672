"""Fixtures of the launcher's tests: a shared server, and child processes that hold servers of their own."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from asyncq.server import Server, start
from tests.support.disk import roomy_folder

CHECKOUT = Path(__file__).parents[2]

HOLDER = """
import json, os, sys
from asyncq.server import start
server = start()
{extra}
print(json.dumps([server.dsn, str(server.folder), server.pid]), flush=True)
sys.stdin.read()
server.stop()
"""


def wait_until(predicate: Callable[[], bool], *, description: str, limit_s: float = 15.0) -> None:
    """Poll until the predicate is true; the failure's message has the description."""
    deadline = time.monotonic() + limit_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {description}")
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process exists, and is no zombie that its parent has yet to collect."""
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        if sys.platform == "linux":
            return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@dataclass
class Holder:
    """A child process that started a server, and waits for the end of its input to stop it."""

    process: "subprocess.Popen[str]"
    dsn: str
    folder: Path
    postmaster: int

    def has_ended(self) -> bool:
        """Whether neither the server nor its folder exists any more."""
        return not runs(self.postmaster) and not self.folder.exists()


@pytest.fixture(scope="package", autouse=True)
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers of these tests, and of the programs that they start, are where making one is quick."""
    tmp_path_factory.getbasetemp()  # elsewhere: on many a memory disk no program can be run
    folder = roomy_folder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """A server that the tests share; they may restart it, and leave it running."""
    with start() as running:
        yield running


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every account can read (those of pytest are private) and run programs in."""
    folder = Path(tempfile.mkdtemp(prefix="asyncq-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def private_root(public_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files is one that nobody else sweeps: not even another run of these tests."""
    monkeypatch.setenv("TMPDIR", str(public_folder))
    monkeypatch.setattr(tempfile, "tempdir", str(public_folder))
    return public_folder


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., Holder]]:
    """Start children that hold a server, and end them even if the test fails."""
    children: list[subprocess.Popen[str]] = []

    def start_one(*, python: str = sys.executable, extra: str = "", **options: object) -> Holder:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), **options.pop("env", {})}
        script = HOLDER.format(extra=extra)
        child = subprocess.Popen(
            [python, "-c", script],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        children.append(child)
        dsn, folder, pid = json.loads(child.stdout.readline())
        return Holder(child, dsn, Path(folder), pid)

    yield start_one
    for child in children:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.wait(30)
        child.stdout.close()

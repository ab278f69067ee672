"""If the process that started a server ends in any way, the server and its folder are removed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncq.server import start
from tests.server.conftest import Holder, runs, wait_until
from tests.server.test_launcher import fetch

Hold = Callable[..., Holder]

PELTED = """
import signal, subprocess, sys
from asyncq.server import folders, guard

PELT = "import os, signal, time; signal.signal(2, signal.SIG_IGN)\\nwhile True: os.killpg(0, 2); time.sleep(1e-5)"
signal.signal(signal.SIGINT, lambda *_: None)
with subprocess.Popen([sys.executable, "-c", PELT]) as pelter:
    try:
        for _ in range(8):
            guard.Guard(folders.create(None)).close()
    finally:
        pelter.kill()
"""


def children_of(pid: int) -> list[int]:
    """The processes that a process started (Linux)."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def parent_of(pid: int) -> int:
    """The process that started a process (Linux)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_the_server_is_gone_after_its_parent_was_killed(hold: Hold) -> None:
    """SIGKILL allows no clean-up: the CI kills a test run, or the terminal of a demo crashes."""
    holder = hold()

    holder.process.kill()

    wait_until(holder.has_ended, description="the server and its folder are gone")
    assert holder.has_ended()


def test_the_server_is_gone_after_its_parent_ended_without_stopping_it(hold: Hold) -> None:
    """A forgotten `stop()` is no leak either."""
    holder = hold(extra="server.stop = lambda: os._exit(3)")

    holder.process.stdin.close()

    wait_until(holder.has_ended, description="the server and its folder are gone")
    assert holder.has_ended()


def test_a_fork_of_the_killed_parent_does_not_keep_the_server(hold: Hold) -> None:
    """A forked child inherits all pipes, so they stay open after the parent's death."""
    holder = hold(extra="if os.fork() == 0: sys.stdin.read(); os._exit(0)")

    holder.process.kill()

    wait_until(holder.has_ended, description="the server and its folder are gone")
    assert holder.has_ended()


def test_a_program_that_the_parent_started_does_not_keep_the_server(hold: Hold) -> None:
    """The pipe's ends are not inheritable: a daemon that a test started outlives the test."""
    holder = hold(extra="import subprocess; subprocess.Popen(['cat'], close_fds=False)")

    holder.process.kill()

    wait_until(holder.has_ended, description="the server and its folder are gone")
    assert holder.has_ended()


def test_ctrl_c_stops_the_server_only_when_the_parent_does(hold: Hold) -> None:
    """A terminal sends SIGINT to its whole group; a worker that shuts down in order still needs its database."""
    holder = hold(extra="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)", start_new_session=True)

    os.killpg(holder.process.pid, signal.SIGINT)

    assert fetch(holder.dsn, "select 1") == 1


def test_ctrl_c_while_the_reaper_starts_leaves_nothing() -> None:
    """Until it has its own session it is in the terminal's process group, which gets the interrupt."""
    program = subprocess.run([sys.executable, "-c", PELTED], start_new_session=True, check=False)

    assert 0 == program.returncode


def test_the_reaper_may_be_terminated(hold: Hold) -> None:
    """A user who ends it from a process list gets the same clean-up."""
    holder = hold()

    os.kill(parent_of(holder.postmaster), signal.SIGTERM)

    wait_until(holder.has_ended, description="the server and its folder are gone")
    assert holder.has_ended()


@pytest.mark.usefixtures("private_root")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_the_server_ends_with_a_killed_reaper_and_the_next_start_sweeps_its_folder(hold: Hold) -> None:
    """The last line of defence: even the process that cleans up can be killed."""
    holder = hold()
    backends = children_of(holder.postmaster)

    os.kill(parent_of(holder.postmaster), signal.SIGKILL)
    wait_until(
        lambda: not any(runs(pid) for pid in (holder.postmaster, *backends)), description="the server's processes end"
    )
    left = holder.folder.exists()
    start().stop()

    assert (True, False) == (left, holder.folder.exists())

"""`asyncq worker --processes N`: N workers that are started again, one exit code, and no worker without its parent."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from asyncq import Client, JobState
from asyncq.cli import worker_group
from asyncq.cli.worker_group import Place, WorkerGroup
from tests.cli.test_worker import WAIT, StartWorker, state_of, worker
from tests.support.cli import Started, appears, asyncq, started, write
from tests.support.waiting import wait_until
from tests.support.web import fetch, free_ports

__all__ = ["worker"]

FALL = """
import os, signal
from pathlib import Path
from asyncq import task

@task(max_attempts=1)
async def fall() -> None:
    if Path("fallen").exists():
        return
    Path("fallen").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
"""

# It fails, with the exit codes of its first argument, one after the other.
FAILING = """
import sys
from pathlib import Path
codes = Path(sys.argv[1])
first, *others = codes.read_text().split()
codes.write_text(" ".join(others))
raise SystemExit(int(first))
"""


def pids_of(process: Started) -> list[int]:
    """The workers that a group has started so far."""
    return [int(pid) for pid in re.findall(r"worker \d of \d is process (\d+)", process.log.read_text())]


def lives(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.leaves_something
async def test_a_worker_that_dies_is_started_again_and_a_signal_stops_all(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """A service manager sends the signal to the workers too: it must not count twice, and end the grace period."""
    write(tmp_path, {"tasks/fall.py": FALL, "tasks/wait.py": WAIT})
    await client.add_job("fall")

    with worker("--processes", "2") as process:
        said = await process.says("worker . of 2 .process .* ended by .*")
        await wait_until(lambda: len(pids_of(process)) == 3, description="a third worker")
        added = await client.add_job("wait")
        await appears(tmp_path / "running")
        for pid in pids_of(process)[1:]:
            if lives(pid):
                os.kill(pid, signal.SIGTERM)
        process.signal()
        await process.says(r"stops \(SIGINT\): 1 running jobs may finish")
        (tmp_path / "go").touch()
        code = await process.end()

    assert (0, "yes", None) == (code, (tmp_path / "done").read_text(), await state_of(client, added.id))
    assert f"process {(tmp_path / 'fallen').read_text()}) ended by SIGKILL; it is started again in " in said
    assert "stopping 2 processes (SIGTERM)" in process.log.read_text()
    assert [] == [pid for pid in pids_of(process) if lives(pid)]


async def test_a_second_signal_ends_the_grace_period_of_all(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """As of one worker: the job is due again."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker("--processes", "1", "--grace", "1h") as process:
        await appears(tmp_path / "running")
        process.signal(signal.SIGINT)
        await process.says(r"stops \(SIGINT\): 1 running")
        process.signal(signal.SIGINT)
        code = await process.end()

    assert (0, JobState.AVAILABLE) == (code, await state_of(client, added.id))


async def test_a_signal_waits_until_a_worker_can_handle_it(worker: StartWorker, tmp_path: Path) -> None:
    """While Python imports its modules, it would end with a traceback."""
    write(tmp_path, {"tasks/wait.py": WAIT})

    with worker("--processes", "1") as process:
        await process.says("is process")
        process.signal(signal.SIGINT)
        code = await process.end()

    assert (0, False) == (code, "Traceback" in process.log.read_text())
    assert "before the worker started" in process.log.read_text()


async def test_workers_stop_when_their_parent_is_killed(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """Nobody else would stop them. The job that runs may finish."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker("--processes", "1") as process:
        await appears(tmp_path / "running")
        process.signal(signal.SIGKILL)
        await wait_until(lambda: "stops (SIGINT)" in process.log.read_text(), description="the stop")
        (tmp_path / "go").touch()
        await wait_until(lambda: not lives(pids_of(process)[0]), description="the end of the worker")

    assert ("yes", None) == ((tmp_path / "done").read_text(), await state_of(client, added.id))


async def test_an_error_of_the_command_line_ends_all_workers_with_2(tmp_path: Path) -> None:
    """Another start would change nothing. With a JSON log each line of the group is JSON too."""
    words = ("worker", "--processes", "2", "--log-format", "json")
    done = await asyncq(*words, cwd=tmp_path, DATABASE_URL="postgresql:///")
    lines = [json.loads(line) for line in done.stderr.splitlines()]

    assert 2 == done.returncode
    assert {"WorkerGroup"} == {line["asyncq_event"] for line in lines if "asyncq_event" in line}
    assert any("which tasks?" in line["message"] for line in lines)


async def test_with_once_a_group_ends_when_nothing_is_due(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """No worker is started again."""
    write(tmp_path, {"tasks/wait.py": WAIT, "go": ""})
    added = await client.add_job("wait")

    with worker("--processes", "2", "--once") as process:
        code = await process.end()

    assert (0, None, 2) == (code, await state_of(client, added.id), len(pids_of(process)))


def test_a_worker_that_fails_again_waits_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a worker that cannot start would cost a whole CPU."""
    failures: list[int] = []
    monkeypatch.setattr(worker_group, "backoff_s", lambda count, *_: failures.append(count) or 0.01)
    codes = write(tmp_path, {"codes": "3 1 0 2"}) / "codes"
    group = WorkerGroup([Place("it", [sys.executable, "-c", FAILING, str(codes)])], restarts=True)

    assert (2, [1, 2, 3]) == (group.run(), failures)


def test_a_worker_whose_program_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a deployment replaces it, or memory is short. The other workers must not end because of that."""
    program = tmp_path / "work"
    program.write_text('#!/bin/sh\nchmod a-x "$0"\nexit 3\n')
    program.chmod(0o755)
    failures: list[int] = []

    def wait(count: int, *_: float) -> float:
        failures.append(count)
        if count == 2:
            program.write_text("#!/bin/sh\nexit 2\n")
            program.chmod(0o755)
        return 0.01

    monkeypatch.setattr(worker_group, "backoff_s", wait)

    assert (2, [1, 2]) == (WorkerGroup([Place("it", [str(program)])], restarts=True).run(), failures)


async def test_each_worker_of_a_group_answers_probes_at_a_port_of_its_own(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """One of them may be ill, and each has its own numbers."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    first = free_ports(3)
    with worker("--processes", "3", "--http", f"127.0.0.1:{first}") as process:
        await wait_until(
            lambda: len(re.findall(r"takes jobs of 1 tasks", process.log.read_text())) == 3, description="three workers"
        )
        pages = [await fetch(f"http://127.0.0.1:{first + place}/readyz") for place in range(3)]
        process.signal()
        code = await process.end()

    assert ([200, 200, 200], 0) == ([page.status for page in pages], code)


WITH_HTTP = """
import os
from asyncq import Worker, task

@task
async def hello() -> None: ...

worker = Worker(os.environ["DATABASE_URL"], [hello], schema=os.environ["SCHEMA"], http=os.environ["HTTP"])
"""


async def test_workers_of_a_group_whose_options_are_in_the_code_have_ports_of_their_own_too(
    dsn: str, client: Client, schema: str, tmp_path: Path
) -> None:
    """The second one would find its port taken, and be started again for ever."""
    write(tmp_path, {"app.py": WITH_HTTP})
    first = free_ports(2)
    with started(
        tmp_path,
        *("worker", "--tasks", "app:worker", "--processes", "2"),
        DATABASE_URL=dsn,
        SCHEMA=schema,
        HTTP=f"127.0.0.1:{first}",
    ) as process:
        await wait_until(
            lambda: len(re.findall(r"takes jobs of 1 tasks", process.log.read_text())) == 2, description="two workers"
        )
        pages = [await fetch(f"http://127.0.0.1:{first + place}/readyz") for place in range(2)]
        process.signal()
        code = await process.end()

    assert ([200, 200], 0) == ([page.status for page in pages], code)

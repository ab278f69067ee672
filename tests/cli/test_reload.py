"""`asyncq worker --reload`: a worker that is started again when its code changes."""

import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from asyncq import Client, JobState
from tests.cli.test_worker import WAIT, StartWorker, state_of, worker
from tests.cli.test_worker_group import lives, pids_of
from tests.support.cli import Started, appears, asyncq, write
from tests.support.waiting import wait_until

__all__ = ["worker"]

SECOND_NS = 1_700_000_000 * 10**9

SAY = """
from pathlib import Path
from asyncq import task

@task
async def say() -> None:
    Path("{}").write_text("yes")
"""

STUCK = """
import time
from pathlib import Path
from asyncq import task

@task(max_attempts=1)
async def stuck() -> None:
    Path("running").write_text("yes")
    while True:
        time.sleep(0.1)
"""


@pytest.fixture(params=["by watchfiles", "by looking"])
def reloading(worker: StartWorker, tmp_path: Path, request: pytest.FixtureRequest) -> StartWorker:
    """Start `asyncq worker --reload`, with the package watchfiles and without it."""
    more = {"PYTHONDONTWRITEBYTECODE": ""}  # As usual, Python keeps compiled code.
    if request.param == "by looking":
        hidden = write(tmp_path / "hidden", {"watchfiles.py": "raise ImportError\n"})
        more["PYTHONPATH"] = f"{hidden}{os.pathsep}{Path(__file__).parents[2]}"

    def start(*words: str) -> AbstractContextManager[Started]:
        return worker("--reload", *words, **more)

    return start


def save(path: Path, text: str, nanoseconds: int) -> None:
    """Write a file at once, with a time in the same second as other such files."""
    new = write(path.parent, {".saved": text}) / ".saved"
    os.utime(new, ns=(SECOND_NS + nanoseconds,) * 2)
    new.replace(path)


async def starts(process: Started, number: int) -> None:
    """Wait until so many workers have started, one after the other."""
    await wait_until(lambda: process.log.read_text().count("takes jobs of") == number, description=f"worker {number}")


@pytest.mark.parametrize("name", ["tasks/say.py", "helpers/texts.py"])
async def test_a_changed_file_starts_the_worker_again(
    reloading: StartWorker, client: Client, tmp_path: Path, name: str
) -> None:
    """Also one that the tasks only import. The edit has the same size and is in the same second."""
    imported = "from helpers.texts import NAME\n" + SAY.replace('"{}"', "NAME")
    own = imported.replace("import NAME", "import NAME as N") + "NAME = 'one'\n"
    texts = {"tasks/say.py": own if name == "tasks/say.py" else imported, "helpers/texts.py": "NAME = 'one'\n"}
    write(tmp_path, texts)
    save(tmp_path / name, texts[name], 0)

    with reloading() as process:
        await starts(process, 1)
        save(tmp_path / name, texts[name].replace("'one'", "'two'"), 1)
        await starts(process, 2)
        await client.add_job("say")
        await appears(tmp_path / "two")
        process.signal(signal.SIGINT)
        code = await process.end()

    assert (0, False) == (code, (tmp_path / "one").exists())
    assert f"{tmp_path / name} has changed" in process.log.read_text()
    assert [] == [pid for pid in pids_of(process) if lives(pid)]


async def test_a_broken_file_is_shown_and_waited_for(reloading: StartWorker, client: Client, tmp_path: Path) -> None:
    """A developer saves a file many times before it is right, and must not go back to the terminal."""
    write(tmp_path, {"tasks/say.py": "def say(:\n"})

    with reloading() as process:
        await process.says(r"tasks/say.py, line 1\)")
        await process.says("cannot start, and is started again when the code changes")
        write(tmp_path, {"tasks/say.py": SAY.format("mended")})
        await client.add_job("say")
        await appears(tmp_path / "mended")
        process.signal()
        code = await process.end()

    assert 0 == code


async def test_a_worker_that_waits_for_a_change_ends_at_a_signal(worker: StartWorker, tmp_path: Path) -> None:
    """No process is there whose end could be waited for."""
    write(tmp_path, {"tasks/say.py": "1/0\n"})

    with worker("--reload") as process:
        await process.says("cannot start, and is started again when the code changes")
        process.signal(signal.SIGINT)
        code = await process.end()

    assert 0 == code


async def test_a_crontab_that_is_written_later_is_read(reloading: StartWorker, client: Client, tmp_path: Path) -> None:
    """The file beside the folder of tasks is optional: it may not have been there at the start."""
    write(tmp_path, {"tasks/say.py": SAY.format("said")})

    with reloading() as process:
        await starts(process, 1)
        write(tmp_path, {"crontab": "0 4 * * * say\n"})
        await wait_until(lambda: _knows(client, "say"), description="the item")
        process.signal()
        code = await process.end()

    assert 0 == code


async def _knows(client: Client, identifier: str) -> bool:
    return identifier in [item.identifier for item in await client.cron.list_items()]


async def test_tasks_outside_of_the_current_folder_are_watched(
    worker: StartWorker, client: Client, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a container they are mounted elsewhere."""
    away = write(tmp_path_factory.mktemp("away"), {"jobs/say.py": SAY.format("one")})

    with worker("--reload", "--tasks", str(away / "jobs")) as process:
        await starts(process, 1)
        write(away, {"jobs/say.py": SAY.format("two")})
        await starts(process, 2)
        process.signal()
        code = await process.end()

    assert 0 == code


async def test_a_package_outside_of_the_current_folder_is_watched(
    worker: StartWorker, client: Client, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The code may be in `src`, or installed from a checkout."""
    away = write(tmp_path_factory.mktemp("src"), {"shop/__init__.py": "", "shop/jobs.py": SAY.format("one")})
    checkout = Path(__file__).parents[2]

    with worker("--reload", "--tasks", "shop.jobs", PYTHONPATH=f"{away}{os.pathsep}{checkout}") as process:
        await starts(process, 1)
        write(away, {"shop/jobs.py": SAY.format("other")})
        await starts(process, 2)
        process.signal()
        code = await process.end()

    assert 0 == code


async def test_other_files_and_hidden_folders_start_nothing_again(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """Handlers write files, and tools write into .venv and __pycache__."""
    write(tmp_path, {"tasks/say.py": SAY.format("notes.txt"), "env/pyvenv.cfg": ""})

    with worker("--reload") as process:
        await starts(process, 1)
        write(tmp_path, {"env/lib/a.py": "", ".hidden/a.py": "", "tasks/__pycache__/a.py": "", "data.csv": ""})
        await client.add_job("say")
        await appears(tmp_path / "notes.txt")
        write(tmp_path, {"z.py": ""})
        await starts(process, 2)
        process.signal()
        await process.end()

    assert ["z.py"] == [
        line.rpartition("/")[2].removesuffix(" has changed")
        for line in process.log.read_text().splitlines()
        if line.endswith("has changed")
    ]


async def test_a_change_while_the_worker_stops_is_in_the_next_one(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """The next worker reads the files when it starts: no third one is needed, and the grace period goes on."""
    write(tmp_path, {"tasks/say.py": SAY.format("one"), "tasks/wait.py": WAIT})
    await client.add_job("wait")

    with worker("--reload", "--grace", "1h") as process:
        await appears(tmp_path / "running")
        write(tmp_path, {"tasks/say.py": SAY.format("two")})
        await process.says(r"stops \(SIGINT\): 1 running")
        write(tmp_path, {"tasks/say.py": SAY.format("six")})
        await wait_until(lambda: process.log.read_text().count("say.py has changed") == 2, description="both changes")
        (tmp_path / "go").touch()
        await starts(process, 2)
        await client.add_job("say")
        await appears(tmp_path / "six")
        process.signal()
        code = await process.end()

    assert (0, 2, False) == (code, len(pids_of(process)), (tmp_path / "two").exists())
    assert "worker 1 has stopped: 1 jobs completed" in process.log.read_text()


async def test_a_job_that_runs_too_long_is_cancelled_and_runs_again(
    worker: StartWorker, client: Client, tmp_path: Path
) -> None:
    """The grace period of a reload is short: a developer waits for it."""
    write(tmp_path, {"tasks/wait.py": WAIT})
    added = await client.add_job("wait")

    with worker("--reload") as process:
        await appears(tmp_path / "running")
        write(tmp_path, {"tasks/wait.py": WAIT.replace('"go"', '"tasks"')})
        await appears(tmp_path / "done")
        process.signal()
        code = await process.end()

    assert (0, None) == (code, await state_of(client, added.id))


@pytest.mark.slow
@pytest.mark.leaves_something
async def test_a_worker_whose_loop_is_blocked_is_killed(worker: StartWorker, client: Client, tmp_path: Path) -> None:
    """An endless loop is a mistake that developers correct by an edit."""
    write(tmp_path, {"tasks/stuck.py": STUCK})
    added = await client.add_job("stuck")

    with worker("--reload") as process:
        await appears(tmp_path / "running")
        write(tmp_path, {"tasks/stuck.py": STUCK.replace("while True", "while False")})
        await process.says("worker 2 takes jobs of")
        gone, last = pids_of(process)
        process.signal()
        code = await process.end()

    assert (0, False, False) == (code, lives(gone), lives(last))
    assert JobState.AVAILABLE != await state_of(client, added.id)


async def test_reload_with_once_is_refused(tmp_path: Path) -> None:
    """A worker that ends by itself has nothing to start again."""
    done = await asyncq("worker", "--reload", "--once", cwd=tmp_path)

    assert (2, True) == (done.returncode, "--once with --reload" in done.stderr)

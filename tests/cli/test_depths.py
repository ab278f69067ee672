"""`asyncq tasks` and `asyncq queues`: the jobs of each."""

import json
from functools import partial

import pytest
from anyio.to_thread import run_sync

from asyncq import Client, task
from asyncq.cli import main
from asyncq.testing import make_worker
from tests.cli.test_jobs import Output, words

__all__ = ["words"]


@task
async def idle() -> None:
    """Has no jobs."""


async def run(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run a command in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, [*command]))
    return code, *capsys.readouterr()


@pytest.fixture
async def jobs(client: Client) -> None:
    """Two due jobs of one task and one that failed; one of another task."""
    made = [(await client.add_job("send", queue="mail")).id for _ in range(3)]
    await client.admin.discard_jobs(made[:1])
    await client.add_job("rollup", queue="\x1b[1m")


async def test_tasks_prints_each_task_with_its_jobs_and_workers(
    words: list[str], dsn: str, schema: str, jobs: None, capsys: Output
) -> None:
    """A task that no worker knows has 0 workers."""
    async with make_worker(dsn, [idle], schema=schema).start():
        code, out, err = await run(capsys, "tasks", *words)
        _, as_json, _ = await run(capsys, "tasks", *words, "--json")

    assert (0, "") == (code, err)
    assert [
        ["task", "due", "waiting", "running", "failed", "workers"],
        ["idle", "0", "0", "0", "0", "1"],
        ["rollup", "1", "0", "0", "0", "0"],
        ["send", "2", "0", "0", "1", "0"],
    ] == [line.split() for line in out.splitlines()]
    assert [("idle", 1), ("rollup", 0), ("send", 0)] == [
        (said["task"], said["workers"]) for said in map(json.loads, as_json.splitlines())
    ]


async def test_queues_prints_the_fullest_first(words: list[str], jobs: None, capsys: Output) -> None:
    """A name cannot control the terminal."""
    code, out, err = await run(capsys, "queues", *words)
    _, as_json, _ = await run(capsys, "queues", *words, "--most", "1", "--json")

    assert (0, "") == (code, err)
    assert [
        ["queue", "due", "waiting", "running", "failed"],
        ["mail", "2", "0", "0", "1"],
        ["\\x1b[1m", "1", "0", "0", "0"],
    ] == [line.split() for line in out.splitlines()]
    assert ["mail"] == [json.loads(line)["queue"] for line in as_json.splitlines()]

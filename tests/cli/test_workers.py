"""`asyncq workers`: workers can be listed, and their jobs returned."""

import json
from functools import partial
from typing import Any

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client
from asyncq.cli import main
from tests.cli.test_jobs import Output, words
from tests.engine.maintenance.test_rounds import claim_as_a_dead_worker

__all__ = ["words"]


async def workers(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run `asyncq workers` in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, ["workers", *command]))
    return code, *capsys.readouterr()


@pytest.fixture
async def gone(client: Client, db: asyncpg.Connection, schema: str) -> int:
    """A worker that holds a job and has been silent for five hours, of a lease of a day."""
    await client.add_job("send")
    return await claim_as_a_dead_worker(db, schema, seconds_ago=5 * 3600, lease=86400)


async def test_a_worker_is_a_line(words: list[str], capsys: Output, gone: int, db: asyncpg.Connection) -> None:
    """The line has the host, the process and the state."""
    code, out, err = await workers(capsys, "ls", *words)
    await workers(capsys, "unlock", str(gone), *words)

    heading, line = (text.split() for text in out.splitlines())
    assert (0, "") == (code, err)
    assert ["id", "state", "host", "pid", "running", "last", "seen", "lock", "stuck", "queues", "tasks"] == heading
    assert [str(gone), "live", "gone", "1", "1", "of", "100"] == line[:7]
    assert ["s", "ago", "no"] == line[8:]


async def test_as_json_it_has_all_that_is_known(words: list[str], capsys: Output, gone: int) -> None:
    """Scripts read it."""
    code, out, _ = await workers(capsys, "ls", "--json", *words)
    await workers(capsys, "unlock", str(gone), *words)

    worker = json.loads(out)
    assert (0, gone, "live", 1, 86400.0) == (
        code,
        *(worker[name] for name in ("id", "state", "running", "lease_s")),
    )
    assert worker["silent_s"] >= 5 * 3600


async def test_stuck_jobs_show(
    words: list[str], capsys: Output, gone: int, db: asyncpg.Connection, schema: str
) -> None:
    """The table has the first of them, JSON has all."""
    await db.execute(f"update {schema}._workers set stuck = '{{7, 8, 9, 10, 11}}'")
    _, table, _ = await workers(capsys, "ls", *words)
    _, line, _ = await workers(capsys, "ls", "--json", *words)
    await workers(capsys, "unlock", str(gone), *words)

    assert "7,8,9,+2" in table.splitlines()[1].split()
    assert [7, 8, 9, 10, 11] == json.loads(line)["stuck"]


@pytest.mark.parametrize(
    ("queues", "exclude", "expected"),
    [
        (["mail", "reports"], [], "mail, reports"),
        (None, ["imports"], "not imports"),
        ([], [], "none"),
        (["mail"], ["imports"], "mail; not imports"),
    ],
)
async def test_the_queues_that_a_worker_takes_show(
    words: list[str], capsys: Output, db: asyncpg.Connection, schema: str, queues: Any, exclude: Any, expected: str
) -> None:
    """A column has them; JSON has null for all queues."""
    await db.execute(
        f"insert into {schema}._workers (lease, pid, concurrency, host, tasks, queues, exclude) "
        "values ('1 h', 1, 1, 'h', '{send}', $1, $2)",
        queues,
        exclude,
    )
    _, table, _ = await workers(capsys, "ls", *words)
    _, line, _ = await workers(capsys, "ls", "--json", *words)
    await db.execute(f"delete from {schema}._workers")

    heading, row = table.splitlines()
    assert expected == row[heading.index("queues") : heading.index("tasks")].strip()
    assert (queues, exclude) == (json.loads(line)["queues"], json.loads(line)["exclude"])


async def test_unlock_frees_the_jobs_of_a_worker(words: list[str], client: Client, capsys: Output, gone: int) -> None:
    """The administrator knows that the worker will not come back."""
    (job,) = (await client.admin.find_jobs(newest=False)).jobs

    assert (0, f"{job.id}\n", "") == await workers(capsys, "unlock", str(gone), *words)
    assert ("available", []) == ((await client.get_job(job.id)).state, await client.admin.list_workers())


async def test_unlock_names_unknown_ids(words: list[str], capsys: Output, gone: int) -> None:
    """A typo must not look like a success."""
    code, out, err = await workers(capsys, "unlock", "x", str(gone), "0", "--json", *words)

    assert (1, gone, "not there: 0, x\n") == (code, json.loads(out)["id"], err)


@pytest.mark.parametrize(("silent", "unlocked"), [("4h", True), ("6h", False)])
async def test_unlock_frees_the_jobs_of_all_that_were_silent_for_so_long(
    words: list[str], client: Client, capsys: Output, gone: int, silent: str, unlocked: bool
) -> None:
    """It is the rule of graphile-worker."""
    code, _, err = await workers(capsys, "unlock", "--silent-for", silent, *words)
    left = await client.admin.list_workers()
    await client.admin.force_unlock_workers([gone])

    assert (0, f"{unlocked:d} workers, {unlocked:d} jobs\n") == (code, err)
    assert ([] if unlocked else [gone]) == [worker.id for worker in left]


@pytest.mark.parametrize(
    "command", [["unlock"], ["unlock", "1", "--silent-for", "4h"], ["ls", "--silent-for", "4h"], ["lock"], ["list"], []]
)
async def test_invalid_arguments_are_refused(words: list[str], capsys: Output, command: list[str]) -> None:
    """They are refused before the database is asked."""
    code, out, err = await workers(capsys, *command, *words)

    assert (2, "") == (code, out)
    assert "asyncq" in err


async def test_claims_of_an_unknown_worker_are_listed_and_can_be_freed(
    words: list[str], client: Client, capsys: Output, gone: int, db: asyncpg.Connection, schema: str
) -> None:
    """No other command can name that worker."""
    await db.execute(f"delete from {schema}._workers")
    _, out, _ = await workers(capsys, "ls", *words)
    code, _, _ = await workers(capsys, "unlock", str(gone), *words)

    assert [str(gone), "unknown", "1", "no"] == out.splitlines()[1].split()
    assert (0, []) == (code, await client.admin.list_workers())

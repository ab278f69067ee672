"""`asyncq cleanup` removes unused rows, and only those."""

import json
from functools import partial

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, JobNotFound
from asyncq.cli import main
from tests.cli.test_jobs import Output, words

__all__ = ["words"]


async def cleanup(capsys: Output, *command: str) -> tuple[int, str, str]:
    """Run `asyncq cleanup` in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, ["cleanup", *command]))
    return code, *capsys.readouterr()


@pytest.fixture
async def failed(client: Client) -> int:
    """A job of `send` that is discarded; there were jobs of `rollup` and `report`, and are none any more."""
    ids = [(await client.add_job(task)).id for task in ("rollup", "report", "send")]
    await client.admin.complete_jobs(ids[:2])
    await client.admin.discard_jobs(ids[2:], "it broke")
    return ids[2]


async def names(db: asyncpg.Connection, schema: str) -> list[str]:
    """The names of tasks that are stored."""
    return [name for (name,) in await db.fetch(f"select identifier from {schema}._tasks order by identifier")]


async def test_unused_names_are_removed(
    words: list[str], capsys: Output, failed: int, client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """Nothing else is removed. One call is enough, though a name takes two steps."""
    code, out, err = await cleanup(capsys, *words)

    assert (0, "") == (code, err)
    assert [["GC_JOB_QUEUES", "0"], ["GC_TASK_IDENTIFIERS", "2"]] == [line.split() for line in out.splitlines()]
    assert ["send"] == await names(db, schema)
    assert (await client.get_job(failed)).state == "discarded"


async def test_names_can_be_kept(
    words: list[str], capsys: Output, failed: int, db: asyncpg.Connection, schema: str
) -> None:
    """--keep may be repeated."""
    code, out, _ = await cleanup(capsys, "--keep", "rollup", "--keep", "other", "--json", *words)

    assert (0, {"GC_JOB_QUEUES": 0, "GC_TASK_IDENTIFIERS": 1}) == (code, json.loads(out))
    assert ["rollup", "send"] == await names(db, schema)


async def test_discarded_jobs_are_deleted_if_they_are_named(
    words: list[str], capsys: Output, failed: int, client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """Nothing else is deleted then."""
    code, out, _ = await cleanup(capsys, "DELETE_PERMAFAILED_JOBS", *words)

    assert (0, ["DELETE_PERMAFAILED_JOBS", "1"]) == (code, out.split())
    with pytest.raises(JobNotFound):
        await client.get_job(failed)
    assert ["report", "rollup", "send"] == await names(db, schema)


async def test_an_unknown_word_is_refused(words: list[str], capsys: Output, failed: int, client: Client) -> None:
    """Nothing is done, even for the other words."""
    code, out, err = await cleanup(capsys, "DELETE_PERMAFAILED_JOBS", "GC_EVERYTHING", *words)

    assert (2, "") == (code, out)
    assert "GC_EVERYTHING" in err
    assert (await client.get_job(failed)).state == "discarded"

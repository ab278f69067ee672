"""`asyncq doctor`: whether a store is whole, and its repair."""

import json
from functools import partial

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client
from asyncq.cli import main
from asyncq.store.statements import render

Output = pytest.CaptureFixture[str]
ORPHAN = "update asyncq._jobs set locked_by = 99, locked_at = now(), lock_token = 1"


async def doctor(dsn: str, schema: str, capsys: Output, *words: str) -> tuple[int, str, str]:
    """Run `asyncq doctor` in this process; returns the exit code and both outputs."""
    code = await run_sync(partial(main, ["doctor", "--dsn", dsn, "--schema", schema, *words]))
    return code, *capsys.readouterr()


async def test_a_healthy_store_is_reported_check_by_check(dsn: str, schema: str, capsys: Output) -> None:
    """The exit code is for a monitor."""
    code, out, err = await doctor(dsn, schema, capsys)

    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    expected = [("ok", "server"), ("ok", "policies"), ("warning", "workers"), ("ok", "tasks")]

    assert (0, "") == (code, err)
    assert expected == [(line[0], line[1]) for line in lines[:4]]
    assert ["ok", "laws", "they hold"] == lines[-1]


async def test_a_problem_ends_with_1_until_it_is_repaired(
    dsn: str, schema: str, client: Client, db: asyncpg.Connection, capsys: Output
) -> None:
    """Repairs are reported on standard error, before all checks run again."""
    job = (await client.add_job("t")).id
    await db.execute(render(ORPHAN, schema))
    broken = await doctor(dsn, schema, capsys)
    repaired = await doctor(dsn, schema, capsys, "--repair")

    assert (1, True) == (broken[0], f"problem  laws          orphan_claim: job {job} was claimed at " in broken[1])
    said = "asyncq: 1 jobs of workers that are gone were returned, 0 key locks removed, 0 keys and queues corrected\n"
    assert (0, said) == (repaired[0], repaired[2])


async def test_json_is_one_object(dsn: str, schema: str, capsys: Output) -> None:
    """Monitors read it."""
    code, out, _ = await doctor(dsn, schema, capsys, "--json")
    said = json.loads(out)

    assert (0, True, {"check": "laws", "level": "ok", "said": "they hold"}) == (
        code,
        said["healthy"],
        said["findings"][-1],
    )


async def test_a_missing_schema_is_reported_like_by_other_commands(dsn: str, capsys: Output) -> None:
    """The message has the command that fixes it."""
    code, _, err = await doctor(dsn, "nowhere", capsys)

    assert (3, True) == (code, "asyncq migrate" in err)

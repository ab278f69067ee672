"""`asyncq migrate`: at every deploy, from many machines at once, and by an older release."""

import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial

import anyio
import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq.cli import main
from asyncq.store import migrate as store
from asyncq.store.database import Database
from tests.support.cli import environment

Output = pytest.CaptureFixture[str]
NEWEST = store.migrations()[-1].id
NAMES = [migration.name for migration in store.migrations()]


@pytest.fixture
async def fresh(db: asyncpg.Connection) -> AsyncIterator[str]:
    """The name of a schema that is not there yet, and is dropped afterwards."""
    name = f"m_{secrets.token_hex(6)}"
    yield name
    await db.execute("set client_min_messages = warning")
    await db.execute(f"drop schema if exists {name} cascade")


def _process(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "asyncq", "migrate", *words]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def migrate(*words: str) -> int:
    """Run the command in this process; returns its exit code."""
    return await run_sync(partial(main, ["migrate", *words]))


async def test_migrate_prints_the_applied_migrations_and_then_that_all_is_up_to_date(
    dsn: str, fresh: str, capsys: Output
) -> None:
    """The log of a deployment must show whether the schema changed."""
    first = await migrate("--dsn", dsn, "--schema", fresh)
    applied = capsys.readouterr().out.splitlines()
    second = await migrate("--dsn", dsn, "--schema", fresh)
    nothing = capsys.readouterr().out

    assert (0, 0) == (first, second)
    assert [f"applied: {name}" for name in NAMES] + [f"schema '{fresh}' is now at version {NEWEST}"] == applied
    assert f"schema '{fresh}' is up to date, at version {NEWEST}\n" == nothing


async def test_check_ends_with_3_and_changes_nothing_while_migrations_are_pending(
    dsn: str, db: asyncpg.Connection, fresh: str, capsys: Output
) -> None:
    """A deploy script asks before it starts the new release."""
    before = await migrate("--check", "--dsn", dsn, "--schema", fresh)
    said = capsys.readouterr().out.splitlines()
    there = await db.fetchval("select to_regnamespace($1) is not null", fresh)
    await store.migrate(Database(dsn, fresh))
    after = await migrate("--check", "--dsn", dsn, "--schema", fresh)

    assert (3, False, 0) == (before, there, after)
    assert [
        *(f"pending: {name}" for name in NAMES),
        f"schema {fresh!r} needs `asyncq migrate --schema {fresh}`",
    ] == said


async def test_with_json_it_prints_one_document_with_the_same_keys_always(dsn: str, fresh: str, capsys: Output) -> None:
    """A script can parse both the check and the migration."""
    documents = []
    for words in (["--check"], [], ["--check"]):
        await migrate(*words, "--json", "--dsn", dsn, "--schema", fresh)
        documents.append(json.loads(capsys.readouterr().out))

    one = {"schema": fresh, "newest": NEWEST, "breaking": {}}
    assert [
        {**one, "version": 0, "applied": [], "pending": NAMES},
        {**one, "version": NEWEST, "applied": NAMES, "pending": []},
        {**one, "version": NEWEST, "applied": [], "pending": []},
    ] == documents


@pytest.mark.parametrize("words", [[], ["--check"]], ids=["migrate", "check"])
async def test_a_database_that_is_newer_is_left_alone_with_exit_code_0(
    words: list[str], dsn: str, db: asyncpg.Connection, schema: str, capsys: Output
) -> None:
    """During a rollout, an old machine may start after a new one has migrated."""
    await db.execute(f"insert into {schema}._migrations (id, name, checksum) values (999999, 'x', 'x')")

    code = await migrate(*words, "--dsn", dsn, "--schema", schema)

    said = (
        f"schema '{schema}' is at version 999999, newer than this release, which knows {NEWEST}: nothing was changed\n"
    )
    assert (0, said) == (code, capsys.readouterr().out)


async def test_check_refuses_a_database_with_which_this_release_cannot_work(
    dsn: str, db: asyncpg.Connection, schema: str, capsys: Output
) -> None:
    """A worker of this release would not start either."""
    await db.execute(
        f"insert into {schema}._migrations (id, name, checksum, needs, release) values (999999, 'x', 'x', 99, '7.0.0')"
    )

    code = await migrate("--check", "--dsn", dsn, "--schema", schema)

    assert (3, True) == (code, "needs asyncq 7.0.0 or newer since its migration x," in capsys.readouterr().err)


async def test_it_names_the_holder_of_the_lock_that_it_waits_for(
    dsn: str, db: asyncpg.Connection, schema: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a deployment hangs without a visible reason."""
    monkeypatch.setattr(store, "LOCK_TIMEOUT_S", 0.1)
    err = ""
    async with anyio.create_task_group() as group, db.transaction():
        await db.execute(f"lock table {schema}._migrations in access exclusive mode")
        group.start_soon(migrate, "--dsn", dsn, "--schema", schema)
        with anyio.fail_after(10):
            while "waiting for a lock" not in err:
                await anyio.sleep(0.01)
                err += capsys.readouterr().err

    pid = db.get_server_pid()
    assert err.startswith(f"asyncq: waiting for a lock, held by pid {pid} (test: lock table")


async def test_eight_at_once_on_an_empty_database_all_succeed(dsn: str, fresh: str) -> None:
    """All machines of a deployment migrate at the same time."""
    processes = [_process("--json", "--dsn", dsn, "--schema", fresh) for _ in range(8)]

    ended = [await run_sync(process.communicate) for process in processes]

    reports = [json.loads(out) for out, _ in ended]
    assert [0] * 8 == [process.returncode for process in processes], ended
    assert [[]] * 7 + [NAMES] == sorted(report["applied"] for report in reports)
    assert [NEWEST] * 8 == [report["version"] for report in reports]
    assert () == (await store.status(Database(dsn, fresh))).pending

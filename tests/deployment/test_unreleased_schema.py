"""A schema that an unreleased version has made: everything that opens it refuses, and says what to do."""

from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import Client, SchemaError, Worker, task
from asyncq.cli import main
from asyncq.store.database import Database
from asyncq.store.migrate import migrate, migrations, status

NAMES = [
    *(
        "names",
        "jobs",
        "workers",
        "deduplication",
        "known_crontabs",
        "public_face",
        "revivals",
        "faster_adds",
        "offers",
    ),
    *("bulk_adds", "waits_and_limits", "own_marks", "batches", "withheld_offers", "offers_lock", "offers_are_batches"),
    *("rules_of_jobs", "rules_in_fewer_words", "rules_and_their_names", "dead_workers", "first_run", "claims"),
    *("texts_and_counts", "attempts_made"),
]
SAID = "was made by an unreleased version of asyncq: its migration 000001_names was never part of a release; drop"

Opens = Callable[[str, str], Awaitable[object]]


@task
async def nothing() -> None:
    """The least job."""


@pytest.fixture
async def unreleased(db: asyncpg.Connection, schema: str) -> str:
    """The name of a schema in which those migrations are recorded."""
    rows = [(number, f"{number:06}_{name}") for number, name in enumerate(NAMES, 1)]
    await db.execute(f"truncate {schema}._migrations")
    await db.executemany(f"insert into {schema}._migrations (id, name, checksum) values ($1, $2, 'x')", rows)
    return schema


async def open_client(dsn: str, schema: str) -> None:
    """Open a client, like a web server."""
    await Client(dsn, schema=schema).open()


async def run_worker(dsn: str, schema: str) -> None:
    """Run a worker once."""
    await Worker(dsn, [nothing], schema=schema).run_once()


async def migrate_by_worker(dsn: str, schema: str) -> None:
    """The same, with the migration in one step."""
    await Worker(dsn, [nothing], schema=schema, migrate=True).run_once()


async def migrate_by_store(dsn: str, schema: str) -> None:
    """Migrate by the function that `Client.migrate` calls."""
    await migrate(Database(dsn, schema))


async def ask_for_status(dsn: str, schema: str) -> None:
    """Ask for the pending migrations."""
    await status(Database(dsn, schema))


@pytest.mark.parametrize(
    "opens",
    [open_client, run_worker, migrate_by_worker, migrate_by_store, ask_for_status],
    ids=lambda each: each.__name__,
)
async def test_a_schema_of_an_unreleased_version_is_refused(
    opens: Opens, dsn: str, unreleased: str, db: asyncpg.Connection
) -> None:
    """Its number is higher, but the schema is not newer than this release. Workers would fail on its tables."""
    with pytest.raises(SchemaError, match=SAID) as error:
        await opens(dsn, unreleased)

    assert SchemaError is type(error.value)
    assert len(NAMES) > len(migrations())
    assert len(NAMES) == await db.fetchval(f"select count(*) from {unreleased}._migrations where checksum = 'x'")


@pytest.mark.parametrize("words", [["migrate"], ["migrate", "--check"], ["doctor"]], ids=" ".join)
async def test_the_commands_refuse_a_schema_of_an_unreleased_version(
    words: list[str], dsn: str, unreleased: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 3, since the database cannot be used."""
    code = await run_sync(partial(main, [*words, "--dsn", dsn, "--schema", unreleased]))

    assert (3, True) == (code, f"the schema '{unreleased}' {SAID}" in capsys.readouterr().err)


async def test_one_migration_that_was_renamed_is_enough(dsn: str, schema: str, db: asyncpg.Connection) -> None:
    """An unreleased version may have stopped anywhere."""
    await db.execute(f"update {schema}._migrations set name = '000002_other' where id = 2")
    with pytest.raises(SchemaError, match="its migration 000002_other was never part of a release"):
        await status(Database(dsn, schema))

"""Installs and upgrades the schema: pending migrations, then all functions, under one advisory lock.

An older release never touches a newer database. Files whose first line is `-- no transaction` run alone after the rest;
`-- breaking` marks a migration after which releases that do not know it must not run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import asyncpg
import msgspec

from asyncq.domain.errors import SchemaMissing, SchemaTooNew
from asyncq.store.database import Database
from asyncq.store.failures import calling
from asyncq.store.statements import folder, render

LOCK_TIMEOUT_S = 2
LOCK_TRIES = 30

Say = Callable[[str], None]


class Migration(msgspec.Struct, frozen=True):
    """One file of sql/migrations."""

    id: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_breaking(self) -> bool:
        """Whether releases that do not know it must not run on it."""
        return "-- breaking" in self.text.splitlines()[:2]

    @property
    def is_alone(self) -> bool:
        """Whether it cannot run inside a transaction."""
        return "-- no transaction" in self.text.splitlines()[:2]


class Report(msgspec.Struct, frozen=True):
    """What `migrate` did.

    Attributes:
        applied: The names of the migrations that it applied, in order.
        version: The database's version afterwards.
        newest: The version that this release knows.
    """

    applied: tuple[str, ...]
    version: int
    newest: int

    @property
    def is_newer(self) -> bool:
        """Whether the database is newer than this release; nothing was changed then."""
        return self.version > self.newest


def migrations() -> list[Migration]:
    """The migrations of this release, in order."""
    paths = sorted((folder() / "migrations").glob("*.sql"))
    return [_migration(path) for path in paths]


def _migration(path: Path) -> Migration:
    number, _, _ = path.stem.partition("_")
    return Migration(int(number), path.stem, path.read_text("utf-8"))


async def migrate(database: Database, say: Say = lambda line: None) -> Report:
    """Bring the schema up to this release.

    Args:
        database: Where.
        say: Takes a line when it has to wait for somebody.

    Returns:
        What was done; nothing when the database is newer than this release.

    Raises:
        StoreError: The server refused, or the lock did not come in about a minute.
        AccessDenied: The role may not create the schema.

    Safe when many do it at once. If cancelled, nothing or everything of a transaction is done.
    """
    connection = await database.connect("migrate")
    try:
        with calling(database.schema):
            await connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT_S}s'")
            return await _with_patience(connection, database.schema, say)
    finally:
        await connection.close(timeout=1.0)


async def _with_patience(connection: asyncpg.Connection, schema: str, say: Say) -> Report:
    """Try until the locks come: each try gives up after `lock_timeout`, so that nobody queues behind a waiting DDL."""
    for attempt in range(1, LOCK_TRIES + 1):
        try:
            report = await _migrate(connection, schema)
            await _migrate_alone(connection, schema)
        except asyncpg.LockNotAvailableError:
            if attempt == LOCK_TRIES:
                raise
            say(f"waiting for a lock, held by {await _blockers(connection, schema)}; try {attempt} of {LOCK_TRIES}")
        else:
            return report
    raise AssertionError("unreachable")


async def _migrate(connection: asyncpg.Connection, schema: str) -> Report:
    known = migrations()
    async with connection.transaction():
        await connection.fetchval("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{schema}:migrate")
        if not await connection.fetchval("select to_regnamespace($1) is not null", schema):
            await connection.execute(f"create schema {schema}")
            await connection.execute(f"revoke all on schema {schema} from public")
        await connection.execute(render(_BOOKKEEPING, schema))
        applied = await _applied(connection, schema)
        newest = known[-1].id
        version = max(applied, default=0)
        if version > newest:
            return Report((), version, newest)
        pending = [migration for migration in known if migration.id not in applied and not migration.is_alone]
        for migration in pending:
            await connection.execute(render(migration.text, schema))
            await _record(connection, schema, migration)
        await _functions(connection, schema)
    return Report(tuple(migration.name for migration in pending), newest, newest)


async def _migrate_alone(connection: asyncpg.Connection, schema: str) -> None:
    """Run what cannot stand in a transaction, one by one; an INVALID index of an earlier try is dropped first."""
    applied = await _applied(connection, schema)
    if max(applied, default=0) > migrations()[-1].id:
        return
    for migration in migrations():
        if migration.is_alone and migration.id not in applied:
            for row in await connection.fetch(_INVALID_INDEXES, schema):
                await connection.execute(f"drop index concurrently {row['name']}")
            await connection.execute(render(migration.text, schema))
            await _record(connection, schema, migration)


async def _functions(connection: asyncpg.Connection, schema: str) -> None:
    # Functions call each other: their bodies are checked when all are there, by their own tests.
    await connection.execute("set local check_function_bodies = off")
    for path in sorted((folder() / "functions").glob("*.sql")):
        await connection.execute(render(path.read_text("utf-8"), schema))
    await connection.execute(f"revoke all on all functions in schema {schema} from public")


async def _applied(connection: asyncpg.Connection, schema: str) -> dict[int, bool]:
    rows = await connection.fetch(render("select id, breaking from asyncq._migrations", schema))
    return {row["id"]: row["breaking"] for row in rows}


async def _record(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    await connection.execute(
        render("insert into asyncq._migrations (id, name, checksum, breaking) values ($1, $2, $3, $4)", schema),
        migration.id,
        migration.name,
        migration.checksum,
        migration.is_breaking,
    )


async def check_version(connection: asyncpg.Connection, schema: str) -> int:
    """Whether this release can work with the database.

    Args:
        connection: A connection.
        schema: The schema.

    Returns:
        The database's version.

    Raises:
        SchemaMissing: The schema is missing, or older than this release needs.
        SchemaTooNew: It holds a breaking migration that this release does not know.
    """
    with calling(schema):
        there = await connection.fetchval("select to_regclass($1) is not null", f"{schema}._migrations")
        applied = await _applied(connection, schema) if there else {}
    known = {migration.id: migration for migration in migrations()}
    if missing := [migration.name for migration in known.values() if migration.id not in applied]:
        what = "is not installed" if not applied else f"lacks {', '.join(missing)}"
        raise SchemaMissing(f"the schema {schema!r} {what}; run `asyncq migrate`")
    if unknown := sorted(number for number, breaking in applied.items() if breaking and number not in known):
        raise SchemaTooNew(
            f"the schema {schema!r} holds the breaking migration {unknown[0]:06}, this release knows up to "
            f"{max(known):06}; upgrade asyncq"
        )
    return max(applied)


async def changed_migrations(connection: asyncpg.Connection, schema: str) -> list[str]:
    """The names of applied migrations whose text differs from this release's."""
    with calling(schema):
        rows = await connection.fetch(render("select id, checksum from asyncq._migrations", schema))
    checksums = {row["id"]: row["checksum"] for row in rows}
    return [item.name for item in migrations() if checksums.get(item.id, item.checksum) != item.checksum]


async def _blockers(connection: asyncpg.Connection, schema: str) -> str:
    rows = await connection.fetch(_HOLDERS, schema)
    return ", ".join(f"pid {row['pid']} ({row['application_name']}: {row['doing']})" for row in rows) or "somebody"


_BOOKKEEPING = """
create table if not exists asyncq._migrations (
  id int constraint migrations_pkey primary key,
  name text not null,
  checksum text not null,
  breaking boolean not null,
  applied_at timestamptz not null default pg_catalog.clock_timestamp()
)
"""

_INVALID_INDEXES = """
select index.indexrelid::regclass::text as name
from pg_catalog.pg_index as index
join pg_catalog.pg_class as relation on relation.oid = index.indexrelid
where not index.indisvalid and relation.relnamespace = to_regnamespace($1)
"""

_HOLDERS = """
select distinct activity.pid, activity.application_name, left(activity.query, 60) as doing
from pg_catalog.pg_locks as lock
join pg_catalog.pg_stat_activity as activity on activity.pid = lock.pid
left join pg_catalog.pg_class as relation on relation.oid = lock.relation
where lock.granted and lock.pid <> pg_backend_pid()
  and (lock.locktype = 'advisory' or relation.relnamespace = to_regnamespace($1))
order by activity.pid
limit 3
"""

"""Installs and upgrades the schema: pending migrations, then all functions, under one advisory lock.

An older release never changes a newer database. A file that begins with `-- no transaction` has one statement, which
runs alone after the other migrations. A file with `-- breaking: needs 000007 of 0.3.0` stops the workers of releases
that do not know the migration 000007.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Collection
from functools import cache

import asyncpg
import msgspec

from asyncq.domain.errors import ConfigurationError, SchemaError, SchemaMissing, SchemaTooNew
from asyncq.domain.sentence import command
from asyncq.store.database import Database
from asyncq.store.failures import calling, on_our_own
from asyncq.store.limits import own_limits
from asyncq.store.listen import TO_ALL, cancel_channel
from asyncq.store.owner import as_owner, become_owner, create_schema, hand_over
from asyncq.store.pooled import assignments, is_pooled
from asyncq.store.probe import check_capabilities
from asyncq.store.roles import grant_again, grantees
from asyncq.store.statements import query, render, texts

# Adds queue behind a statement that waits for an exclusive lock. Where an add and a migration wait for each other, the
# migration gives up first: this is half of the server's usual deadlock_timeout.
LOCK_TIMEOUT_S = 0.5
LOCK_TRIES = 120
# `create index concurrently` waits for older transactions and blocks no add; each try builds the index again.
ALONE_TIMEOUT_S = 60.0

Say = Callable[[str], None]


class Migration(msgspec.Struct, frozen=True):
    """One file of sql/migrations."""

    id: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def needs(self) -> tuple[int, str] | None:
        """The first migration and release that can run on its schema; None if older releases can go on."""
        found = _BREAKING.search("\n".join(self.text.splitlines()[:2]))
        return (int(found[1]), found[2]) if found else None

    @property
    def is_alone(self) -> bool:
        """Whether the migration cannot run inside a transaction."""
        return "-- no transaction" in self.text.splitlines()[:2]


class Report(msgspec.Struct, frozen=True):
    """The result of `migrate`.

    Attributes:
        version: The database's version afterwards; `newest` is the one that this release knows.
        pending: The names of the migrations that have not been applied; none after `migrate`.
        breaking: The migrations among these that stop workers of older releases: name -> first release that can go on.
    """

    applied: tuple[str, ...]
    version: int
    newest: int
    pending: tuple[str, ...] = ()
    breaking: dict[str, str] = {}

    @property
    def is_newer(self) -> bool:
        """Whether the database is newer than this release; nothing was changed then."""
        return self.version > self.newest


def migrations() -> list[Migration]:
    """The migrations of this release, in order."""
    return [Migration(int(name.partition("_")[0]), name, text) for name, text in texts("migrations").items()]


def newest() -> int:
    """The version of the schema that this release knows."""
    return migrations()[-1].id


async def migrate(database: Database, say: Say = lambda _: None) -> Report:
    """Bring the schema up to this release; `say` is called with a line when another session holds a lock.

    Raises:
        StoreError: The server refused, or the lock did not come in about a minute.
        SchemaError: An unreleased version of asyncq made the schema.
        ConfigurationError: The schema holds another table _migrations.
        AccessDenied: The role may not create the schema, or cannot act for the owner of the existing one.
        UnsupportedServer: The server lacks a feature that asyncq needs.

    Several processes may call this at the same time. If cancelled, each transaction was committed or rolled back.
    """
    async with database.connected("migrate") as connection:
        await check_capabilities(database, connection)
        with on_our_own(), calling(database.schema):
            return await migrate_on(connection, database.schema, say)


async def migrate_on(connection: asyncpg.Connection, schema: str, say: Say = lambda _: None) -> Report:
    """Run `migrate` on a given connection in no transaction; may change its timeouts. Raises the driver's errors."""
    if not is_pooled(connection):
        await connection.execute(_limits(connection, "set", ALONE_TIMEOUT_S))
    return await _with_patience(connection, schema, say)


def _limits(connection: asyncpg.Connection, how: str, lock_s: float) -> str:
    """Return the statements that replace the role's time limits, which an index may exceed."""
    return assignments(how, own_limits(connection, statement_s=0, lock_s=lock_s))


async def status(database: Database) -> Report:
    """Report what `migrate` would do; changes nothing. Raises as `check_version`; version 0: nothing is installed."""
    async with database.connected("migrate") as connection:
        with calling(database.schema):
            applied = await _applied_if_any(connection, database.schema)
        known = migrations()
        pending = tuple(migration.name for migration in known if migration.id not in applied)
        if pending and max(applied, default=0) < known[-1].id:
            return Report((), max(applied, default=0), known[-1].id, pending, _breaking(pending))
        return Report((), await check_version(connection, database.schema), known[-1].id)


def _breaking(names: Collection[str]) -> dict[str, str]:
    """Return the migrations among these that stop older releases."""
    return {each.name: each.needs[1] for each in migrations() if each.name in names and each.needs is not None}


async def _with_patience(connection: asyncpg.Connection, schema: str, say: Say) -> Report:
    """Try until all locks are free: each try ends after `lock_timeout`, so that adds do not queue behind DDL."""
    done: list[str] = []
    for attempt in range(1, LOCK_TRIES + 1):
        try:
            version, newest = await _migrate(connection, schema, done)
            if version <= newest:
                await _migrate_alone(connection, schema, done)
        except asyncpg.LockNotAvailableError:
            if attempt == LOCK_TRIES:
                raise
            say(f"waiting for a lock, held by {await _blockers(connection, schema)}; try {attempt} of {LOCK_TRIES}")
        else:
            return Report(tuple(done), version, newest, breaking=_breaking(done))
    raise AssertionError("unreachable")


async def _migrate(connection: asyncpg.Connection, schema: str, done: list[str]) -> tuple[int, int]:
    """Run all migrations that can share one transaction; returns the versions of the database and the release."""
    known = migrations()
    newest = known[-1].id
    async with connection.transaction():
        await connection.execute(_limits(connection, "set local", LOCK_TIMEOUT_S))
        await connection.fetchval("select pg_advisory_xact_lock(hashtextextended($1, 0))", _key(schema))
        if not await connection.fetchval("select to_regnamespace($1) is not null", schema):
            await create_schema(connection, schema)
        await hand_over(connection, schema, _names())
        await become_owner(connection, schema)
        await connection.execute(render(_BOOKKEEPING, schema))
        applied = await _applied_if_any(connection, schema)
        version = max(applied, default=0)
        if version > newest:
            return version, newest
        pending = [migration for migration in known if migration.id not in applied and not migration.is_alone]
        roles = await grantees(connection, schema) if pending else []
        for migration in pending:
            # A migration for changed functions is only a comment, which the driver cannot run alone.
            await connection.execute(f"{render(migration.text, schema)}\n;select")
            await _record(connection, schema, migration)
        await _functions(connection, schema)
        await _close_to_public(connection, schema)
        # Functions that run with the caller's rights may call new ones, so the roles of running workers need them.
        await grant_again(connection, schema, roles)
    done.extend(migration.name for migration in pending)
    return newest, newest


async def _migrate_alone(connection: asyncpg.Connection, schema: str, done: list[str]) -> None:
    """Run the other migrations one by one; drops an INVALID index of an earlier try first."""
    for migration in migrations():
        if not migration.is_alone or await _is_applied(connection, schema, migration):
            continue
        if is_pooled(connection):
            raise ConfigurationError(
                f"{migration.name} cannot run through a pooler that pools by transaction: "
                f"run `{command('migrate', schema)}` with a DSN that leads directly to the server"
            )
        await _lock_alone(connection, schema)
        try:
            if not await _is_applied(connection, schema, migration):
                async with as_owner(connection, schema):
                    await _run_alone(connection, schema, migration)
                done.append(migration.name)
        finally:
            await connection.execute("select pg_advisory_unlock(hashtextextended($1, 0))", _key(schema))


async def _is_applied(connection: asyncpg.Connection, schema: str, migration: Migration) -> bool:
    async with connection.transaction():
        await become_owner(connection, schema)
        return migration.id in await _applied(connection, schema)


async def _run_alone(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    for row in await connection.fetch(_INVALID_INDEXES, schema):
        if re.search(rf"\b{row['name']}\b", migration.text):
            await connection.execute(f"drop index concurrently {schema}.{row['name']}")
    await connection.execute(render(migration.text, schema))
    await _record(connection, schema, migration)


async def _lock_alone(connection: asyncpg.Connection, schema: str) -> None:
    """Poll for the lock: a wait in the server would hold a snapshot, which blocks `create index concurrently`."""
    for _ in range(round(LOCK_TIMEOUT_S * 20)):
        if await connection.fetchval("select pg_try_advisory_lock(hashtextextended($1, 0))", _key(schema)):
            return
        await asyncio.sleep(0.05)
    raise asyncpg.LockNotAvailableError("another migration of the same schema is under way")


def _key(schema: str) -> str:
    """Return the name of the advisory lock of a schema's migrations."""
    return f"{schema}:migrate"


async def _functions(connection: asyncpg.Connection, schema: str) -> None:
    """Create all functions in one round trip."""
    # Functions call each other, so their bodies cannot be checked one by one; their tests do that.
    everything = ["set local check_function_bodies = off", *texts("functions").values()]
    await connection.execute(render("\n;\n".join(everything), schema))


async def _close_to_public(connection: asyncpg.Connection, schema: str) -> None:
    """Revoke the default privileges of PUBLIC on asyncq's own objects; the schema may contain others."""
    if rows := await connection.fetch(_OPEN_TO_PUBLIC, schema, sorted(_names())):
        await connection.execute(";\n".join(f"revoke all on {row['what']} from public" for row in rows))


def _names() -> set[str]:
    """Return the names of asyncq's own objects in a schema."""
    functions = texts("functions").values()
    everything = [_BOOKKEEPING, *(migration.text for migration in migrations()), *functions]
    return {name for text in everything for name in _created(text)}


@cache
def _created(text: str) -> frozenset[str]:
    return frozenset(_CREATED.findall(text))


async def _applied(connection: asyncpg.Connection, schema: str) -> set[int]:
    """Read the numbers of the applied migrations; refuses a schema of an unreleased version."""
    rows = await connection.fetch(render("select id, name from asyncq._migrations order by id", schema))
    known = {migration.id: migration.name for migration in migrations()}
    # Names are frozen: a release finds other names below its own version only if they were never released.
    if strange := [row["name"] for row in rows if row["name"] != known.get(row["id"], row["name"])]:
        raise SchemaError(
            f"the schema {schema!r} was made by an unreleased version of asyncq: its migration {strange[0]} was never "
            "part of a release; drop the schema, or move its jobs, and migrate into a new one"
        )
    return {row["id"] for row in rows}


async def _applied_if_any(connection: asyncpg.Connection, schema: str) -> set[int]:
    """Read the numbers of the applied migrations; refuses another program's table of the same name."""
    is_ours = await connection.fetchval(_IS_OURS, f"{schema}._migrations")
    if is_ours is None:
        return set()
    if not is_ours:
        raise ConfigurationError(
            f"the schema {schema!r} holds a table _migrations that is not of asyncq; choose another schema, "
            "or rename that table"
        )
    return await _applied(connection, schema)


async def _record(connection: asyncpg.Connection, schema: str, migration: Migration) -> None:
    needs = migration.needs
    insert = "insert into asyncq._migrations (id, name, checksum, needs, release) values ($1, $2, $3, $4, $5)"
    values = (migration.id, migration.name, migration.checksum, *(needs or (None, None)))
    await connection.execute(render(insert, schema), *values)
    if needs is not None:
        # A beat checks the release. This notification makes workers send the next one now.
        await connection.execute("select pg_notify($1, $2)", cancel_channel(schema), TO_ALL)


async def check_version(connection: asyncpg.Connection, schema: str) -> int:
    """Check that this release can work with the database, and return the database's version.

    SchemaMissing if the schema is missing, or older than this release needs. SchemaTooNew if it holds a breaking
    migration that this release does not know. Else it raises as `migrate`.
    """
    with calling(schema):
        applied = await _applied_if_any(connection, schema)
    known = {migration.id: migration for migration in migrations()}
    if missing := [migration.name for migration in known.values() if migration.id not in applied]:
        what = "is not installed" if not applied else f"lacks {', '.join(missing)}"
        raise SchemaMissing(f"the schema {schema!r} {what}; run `{command('migrate', schema)}`")
    await check_release(connection, schema, max(known))
    return max(applied)


async def check_release(connection: asyncpg.Connection, schema: str, known: int) -> None:
    """Raise SchemaTooNew if the schema holds a breaking migration that excludes this release."""
    with calling(schema):
        rows = await connection.fetch(query("breaking_since", schema), known)
    if rows:
        raise SchemaTooNew(
            f"the schema {schema!r} needs asyncq {rows[0]['release']} or newer since its migration {rows[0]['name']}, "
            f"and this release knows them up to {known:06}; stop it, and upgrade asyncq"
        )


async def _blockers(connection: asyncpg.Connection, schema: str) -> str:
    rows = await connection.fetch(_HOLDERS, schema, _key(schema), LOCK_TIMEOUT_S)
    return ", ".join(f"pid {row['pid']} ({row['application_name']}: {row['doing']})" for row in rows) or "somebody"


_BREAKING = re.compile(r"^-- breaking: needs ([0-9]{6}) of ([0-9]+\.[0-9]+\.[0-9]+)$", re.MULTILINE)

_CREATED = re.compile(
    r"^create (?:or replace |unlogged )?(?:table|view|type|function)(?: if not exists)? asyncq\.(\w+)", re.MULTILINE
)

# A role that may use a type can build a table on it; then a migration could not change the type. Each table and view is
# a type, too.
_OPEN_TO_PUBLIC = """
with ours as (select to_regnamespace($1) as schema, $2::text[] as names)
select 'function ' || routine.oid::regprocedure as what
from ours
join pg_catalog.pg_proc as routine on routine.pronamespace = ours.schema and routine.proname = any(ours.names)
cross join aclexplode(coalesce(routine.proacl, acldefault('f', routine.proowner))) as entry
where entry.grantee = 0
union
select 'type ' || type.oid::regtype
from ours
join pg_catalog.pg_type as type
  on type.typnamespace = ours.schema and type.typname = any(ours.names) and type.typelem = 0
cross join aclexplode(coalesce(type.typacl, acldefault('T', type.typowner))) as entry
where entry.grantee = 0
union
select 'table ' || relation.oid::regclass
from ours
join pg_catalog.pg_class as relation
  on relation.relnamespace = ours.schema and relation.relname = any(ours.names) and relation.relkind in ('r', 'p', 'v')
cross join aclexplode(relation.relacl) as entry
where entry.grantee = 0
order by what
"""

_BOOKKEEPING = """
create table if not exists asyncq._migrations (
  id int constraint migrations_pkey primary key,
  name text collate "C" not null,
  checksum text collate "C" not null,
  needs int,
  release text collate "C",
  applied_at timestamptz not null default pg_catalog.clock_timestamp()
)
"""

_IS_OURS = """
select count(*) filter (where case column_.atttypid
    when 'pg_catalog.int4'::regtype then column_.attname in ('id', 'needs')
    when 'pg_catalog.text'::regtype then column_.attname in ('name', 'checksum', 'release') end) = 5
from pg_catalog.pg_attribute as column_
where column_.attrelid = to_regclass($1)
having count(*) > 0
"""

_INVALID_INDEXES = """
select relation.relname as name
from pg_catalog.pg_index as index
join pg_catalog.pg_class as relation on relation.oid = index.indexrelid
where not index.indisvalid and relation.relnamespace = to_regnamespace($1)
"""

# Sessions with a lock on asyncq's tables or the lock of migrations; then sessions with a long transaction, for which
# `create index concurrently` waits.
_HOLDERS = """
with wanted as (select hashtextextended($2, 0) as key),
held as (
  select lock.pid
  from pg_catalog.pg_locks as lock
  join pg_catalog.pg_database as here on here.oid = lock.database and here.datname = current_database()
  left join pg_catalog.pg_class as relation on relation.oid = lock.relation
  cross join wanted
  where lock.granted
    and (relation.relnamespace = to_regnamespace($1)
      or lock.locktype = 'advisory' and lock.classid = (wanted.key >> 32 & 4294967295)::oid
        and lock.objid = (wanted.key & 4294967295)::oid))
select activity.pid, activity.application_name, left(activity.query, 60) as doing
from pg_catalog.pg_stat_activity as activity
where activity.pid <> pg_backend_pid()
  and (activity.pid in (select pid from held)
    or activity.datname = current_database() and activity.xact_start < clock_timestamp() - make_interval(secs => $3))
order by activity.pid in (select pid from held) desc, activity.xact_start
limit 3
"""

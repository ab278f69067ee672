"""Makes the schemas of the tests and takes them back, on one connection that is kept.

To install a schema costs more than most tests do. So a schema is used again if its test has left it as it was: the
catalog is the same, and nothing holds a lock in it. Its tables are emptied, and their numbers begin at 1 again.

Each new connection begins with empty caches and reads the catalog into them first, which costs more than the schema
does. The connection has a thread and an event loop of its own, so that it outlives those of a test.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import asyncpg
from anyio.from_thread import BlockingPortal, start_blocking_portal

from asyncq.store.statements import render
from asyncq.testing.schema import drop, install
from tests.support.laws import LAWS

LEFT = f"""
select 'claim of job ' || id as what from asyncq._all_jobs() where locked_by is not null
union all
select 'claims of partition ' || coalesce(held.key, counted.id::text)
from asyncq._partition_counts() as counted left join asyncq._partitions as held using (id) where counted.jobs <> 0
union all
select 'worker ' || id from asyncq._workers
union all
select law || coalesce(' job ' || job_id, '') || ' ' || said from ({LAWS}) as broken (law, job_id, said)
"""
# The server is older, since `grow_up` waits: a silent worker of a new schema is dead at once. Free locks do not count.
RUN = """
delete from asyncq._server_runs;
insert into asyncq._server_runs (since) values (clock_timestamp() - interval '10 seconds');
delete from asyncq._limits;
insert into asyncq._limits (id, at_once) values (0, null), (1, 1), (2, null)
"""
# All that the catalog says of a schema. Rows of pg_class also hold counts, which are left out.
ROWS = """
with relations as materialized (
  select *, xmin from pg_catalog.pg_class where relnamespace = 'asyncq'::regnamespace
),
rows (written_by, text) as (
  select one.xmin, one::text from pg_catalog.pg_namespace as one where one.oid = 'asyncq'::regnamespace
  union all
  select xmin, row(
    oid, relname, relowner, relkind, relpersistence, relreplident, relacl, reloptions, relchecks, relhastriggers,
    relrowsecurity, relforcerowsecurity)::text
  from relations
  union all
  select one.xmin, one::text from pg_catalog.pg_attribute as one where one.attrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_attrdef as one where one.adrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_index as one where one.indrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_trigger as one where one.tgrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_rewrite as one where one.ev_class in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_policy as one where one.polrelid in (select oid from relations)
  union all
  select one.xmin, 'statistics ' || one.starelid from pg_catalog.pg_statistic as one
  where one.starelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_publication_rel as one where one.prrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_sequence as one where one.seqrelid in (select oid from relations)
  union all
  select one.xmin, one::text from pg_catalog.pg_operator as one where one.oprnamespace = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from pg_catalog.pg_constraint as one where one.connamespace = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from pg_catalog.pg_type as one where one.typnamespace = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from pg_catalog.pg_proc as one where one.pronamespace = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from pg_catalog.pg_default_acl as one where one.defaclnamespace = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from pg_catalog.pg_description as one where one.objoid = 'asyncq'::regnamespace
  union all
  select one.xmin, one::text from asyncq._migrations as one
)
"""
# Its contents as one number, and the last transaction that wrote it, which is found in a fraction of the time.
CONTENTS = f"{ROWS} select sum(pg_catalog.hashtextextended(text, 0))::text from rows"
LAST_CHANGE = f"{ROWS} select count(*) || ' ' || max(written_by::text::bigint) from rows"
HELD = """
select from pg_catalog.pg_locks as lock
where lock.pid <> pg_catalog.pg_backend_pid() and (
  lock.locktype = 'relation' and lock.relation in (
    select oid from pg_catalog.pg_class where relnamespace = 'asyncq'::regnamespace)
  or lock.locktype = 'advisory' and lock.classid = asyncq._lock_space()::bigint & 4294967295)
limit 1
"""
# A table without a page was never written.
WRITTEN = """
select relation.oid::regclass::text as name,
  pg_catalog.pg_relation_size(relation.oid) <= 65536 and relation.reltuples < 0 as is_small
from pg_catalog.pg_class as relation
where relation.relnamespace = 'asyncq'::regnamespace and relation.relkind = 'r'
  and relation.relname not in ('_migrations', '_server_runs')
  and (pg_catalog.pg_relation_size(relation.oid) > 0 or relation.reltuples >= 0)
"""
# Also of a table without a page: a refused insert may have taken a number.
NUMBERS = """
select pg_catalog.setval(seqrelid::regclass, seqstart, false) from pg_catalog.pg_sequence
where seqrelid in (select oid from pg_catalog.pg_class where relnamespace = 'asyncq'::regnamespace)
  and pg_catalog.pg_sequence_last_value(seqrelid) is not null
"""
# Functions read the number of dead rows from the counters, which the tests have changed. The landlord is not counted.
UNCOUNTED = """
select pg_catalog.pg_stat_reset_single_table_counters(oid) from pg_catalog.pg_class
where relnamespace = 'asyncq'::regnamespace and relkind = 'r'
"""
OPEN = "select 'connection ' || application_name from pg_catalog.pg_stat_activity where application_name ^@ $1"


class Catalog(NamedTuple):
    """What the catalog says of a schema: a hash of its contents, and the last transaction that wrote it."""

    contents: str
    last_change: str


class Landlord:
    """Lets schemas on a server.

    Args:
        dsn: The server.
        portal: The way into the thread of the connection.
    """

    def __init__(self, dsn: str, portal: BlockingPortal) -> None:
        self._dsn = dsn
        self._portal = portal
        self._connection: asyncpg.Connection | None = None
        self._free: dict[str, Catalog] = {}
        """The schemas that may be used again, with what their catalogs say."""

    @asynccontextmanager
    async def schema(self) -> AsyncGenerator[str]:
        """An installed schema without a job; at the end it is kept for another test if it may be, else dropped."""
        if self._free:
            name, catalog = self._free.popitem()
        else:
            name = f"t_{secrets.token_hex(6)}"
            await self._do(install, name)
            await self._do(_execute, render(RUN, name))
            catalog = await self._do(_catalog, name)
        try:
            yield name
        finally:
            if left := await self._do(_empty, name, catalog):
                self._free[name] = left
            else:
                await self._do(drop, name)

    async def connections(self, schema: str) -> list[str]:
        """The open connections of a schema, by their names."""
        return await self._do(_names, OPEN, f"{schema} ")

    async def claims(self, schema: str) -> list[str]:
        """The claims of workers in a schema, the workers themselves, and broken rules of the store."""
        return await self._do(_names, render(LEFT, schema))

    async def _do(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Do something on the connection, in its thread."""

        async def do() -> Any:
            if self._connection is None or self._connection.is_closed():
                # Compiling the laws would take ten seconds after each test.
                settings = {"application_name": "landlord", "track_counts": "off", "jit": "off"}
                self._connection = await asyncpg.connect(self._dsn, server_settings=settings)
            return await work(self._connection, *args)

        return await asyncio.wrap_future(self._portal.start_task_soon(do))

    async def close(self) -> None:
        """Drop the schemas that are free, and close the connection."""
        if self._connection is not None:
            for name in self._free:
                await drop(self._connection, name)
            await self._connection.close(timeout=5)


async def _execute(connection: asyncpg.Connection, query: str) -> None:
    await connection.execute(query)


async def _names(connection: asyncpg.Connection, query: str, *args: str) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *args)]


async def _catalog(connection: asyncpg.Connection, schema: str) -> Catalog:
    (contents,) = await _names(connection, render(CONTENTS, schema))
    return Catalog(contents, *await _names(connection, render(LAST_CHANGE, schema)))


async def _empty(connection: asyncpg.Connection, schema: str, catalog: Catalog) -> Catalog | None:
    """Make a schema as it was after its installation; None if it has changed, or somebody still uses it.

    A truncation makes new files for a table and each of its indexes, which takes longer than many tests do. So the rows
    of small tables are deleted; a table that was analysed or has many pages is truncated. A test may have changed
    something and undone it: then the contents of the catalog are as before, and only its last change is another one.
    """
    try:
        if await _names(connection, OPEN, f"{schema} ") or await connection.fetch(render(HELD, schema)):
            return None
        if [catalog.last_change] != await _names(connection, render(LAST_CHANGE, schema)):
            before, catalog = catalog, await _catalog(connection, schema)
            if before.contents != catalog.contents:
                return None
        written = await connection.fetch(render(WRITTEN, schema))
        small = [f"delete from {name};" for name, is_small in written if is_small]
        large = [f"truncate {name} cascade;" for name, is_small in written if not is_small]
        emptying = " ".join([*large, *small, f"{render(NUMBERS, schema)};", render(RUN, schema)])
        await connection.execute(f"set lock_timeout = '1s'; {emptying}; reset lock_timeout")
        await connection.execute(render(UNCOUNTED, schema))
    except asyncpg.PostgresError:  # such as the test that has dropped its schema
        return None
    return catalog


async def grow_up(dsn: str) -> None:
    """Wait until a server is older than the return window, in which no worker is declared dead."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "landlord"})
    try:
        await connection.execute("""
            select pg_sleep_until(pg_postmaster_start_time() + interval '10.1 seconds')
            where pg_postmaster_start_time() + interval '10.1 seconds' > clock_timestamp()""")
    finally:
        await connection.close(timeout=5)


@contextmanager
def landlord_of(dsn: str) -> Generator[Landlord]:
    """The landlord of a server, for as long as the block lasts."""
    with start_blocking_portal("asyncio") as portal:
        landlord = Landlord(dsn, portal)
        yield landlord
        portal.call(landlord.close)

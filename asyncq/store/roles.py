"""Grants roles their privileges, and reads which function a role may use to add jobs."""

import re
from collections.abc import Iterable, MutableMapping
from typing import Literal, cast

import asyncpg

from asyncq.domain.errors import ConfigurationError
from asyncq.store.adapters.kinds import Adapter
from asyncq.store.adapters.synchronous import SyncAdapter
from asyncq.store.database import Database
from asyncq.store.failures import calling, on_our_own
from asyncq.store.statements import check_schema, query, render, sql_file

WayIn = Literal["directly", "by_enqueue"]
Grantee = tuple[str, str]  # ("worker", "enqueuer" or "monitor", name of the role)


async def way_in(connection: asyncpg.Connection, schema: str) -> WayIn:
    """Return `by_enqueue` for a role that may add jobs only by `enqueue`, `directly` for all others."""
    with calling(schema):
        (may,) = await connection.fetch(query("may_add", schema))
    return "by_enqueue" if may["by_enqueue"] and not may["directly"] else "directly"


async def way_in_of(adapter: Adapter | SyncAdapter, schema: str, known: MutableMapping[object, WayIn]) -> WayIn:
    """Return the `way_in` of a caller's connection of another library; it is read once for each engine."""
    with calling(schema):
        origin = await adapter.origin()
    if (found := known.get(origin)) is None:
        known[origin] = found = await way_in(cast(asyncpg.Connection, adapter), schema)
    return found


def script(schema: str, *, worker: str, enqueuer: str) -> str:
    """Render sql/roles.sql for a schema and two roles, as statements with their own transaction."""
    return _filled("roles.sql", schema, {"worker": worker, "enqueuer": enqueuer})


def monitor_script(schema: str, *, monitor: str) -> str:
    """Render sql/monitor.sql for a schema and a role, as statements with their own transaction."""
    return _filled("monitor.sql", schema, {"monitor": monitor})


def _filled(name: str, schema: str, roles: dict[str, str]) -> str:
    # The schema first: a role's name may contain the word.
    text = render(sql_file(name), check_schema(schema))
    for role in roles.values():
        if not role or "\0" in role:
            raise ConfigurationError(f"{role!r} is no name of a role")
    return _VARIABLE.sub(lambda found: _quoted(roles[found["name"]], found["mark"]), text)


# As psql replaces its variables: :"name" by an identifier, :'name' by a literal.
_VARIABLE = re.compile(r""":(?P<mark>["'])(?P<name>worker|enqueuer|monitor)(?P=mark)""")


def _quoted(text: str, mark: str) -> str:
    doubled = mark + text.replace(mark, mark * 2) + mark
    # In a plain literal the meaning of a backslash depends on a setting of the session.
    return f" E{doubled.replace(chr(92), chr(92) * 2)}" if mark == "'" and "\\" in text else doubled


_GRANT = re.compile(r"""^grant [^;]*? to :"(worker|enqueuer|monitor)";$""", re.MULTILINE)

# The function that was granted to a role says its part. The owner needs no grant; PUBLIC is left out.
_GRANTEES = """
select distinct case routine.proname when 'enqueue' then 'enqueuer' else 'worker' end as part, role.rolname as name
from pg_catalog.pg_proc as routine
cross join pg_catalog.aclexplode(routine.proacl) as entry
join pg_catalog.pg_roles as role on role.oid = entry.grantee
where routine.pronamespace = pg_catalog.to_regnamespace($1) and routine.proname in ('_add_jobs', 'enqueue')
  and entry.privilege_type = 'EXECUTE' and entry.grantee <> routine.proowner
union
select 'monitor', role.rolname
from pg_catalog.pg_proc as routine
cross join pg_catalog.aclexplode(routine.proacl) as entry
join pg_catalog.pg_roles as role on role.oid = entry.grantee
where routine.pronamespace = pg_catalog.to_regnamespace($1) and routine.proname = 'failures'
  and entry.privilege_type = 'EXECUTE' and entry.grantee <> routine.proowner
  and not exists (
    select from pg_catalog.pg_proc as other
    cross join pg_catalog.aclexplode(other.proacl) as more
    where other.pronamespace = routine.pronamespace and other.proname = '_add_jobs' and more.grantee = entry.grantee)
order by part, name
"""


async def grantees(connection: asyncpg.Connection, schema: str) -> list[Grantee]:
    """Read the roles that may call `_add_jobs`, as workers, and those that may call `enqueue`, as enqueuers."""
    return [(row["part"], row["name"]) for row in await connection.fetch(_GRANTEES, schema)]


async def grant_again(connection: asyncpg.Connection, schema: str, roles: Iterable[Grantee]) -> None:
    """Grant roles the privileges that sql/roles.sql lists for their part, as the schema's owner; revokes nothing."""
    # The schema first: a role's name may contain the word.
    text = render(sql_file("roles.sql"), schema) + render(sql_file("monitor.sql"), schema)
    found = [(grant[1], grant[0]) for grant in _GRANT.finditer(text)]
    grants = [
        _VARIABLE.sub(lambda _, name=name: _quoted(name, '"'), grant)
        for part, name in roles
        for whose, grant in found
        if whose == part
    ]
    if grants:
        await connection.execute("\n".join(grants))


async def apply(database: Database, *, worker: str, enqueuer: str) -> None:
    """Grant the roles the privileges they need, and revoke all others in the schema; creates a missing role.

    AccessDenied unless the connection's role is the owner of the schema, or a superuser, and may create roles.
    SchemaMissing if there is no such schema. If cancelled, all of it was done or nothing.
    """
    text = script(database.schema, worker=worker, enqueuer=enqueuer)
    async with database.connected("roles") as connection:
        with on_our_own(), calling(database.schema):
            await connection.execute(text)


async def apply_monitor(database: Database, *, monitor: str) -> None:
    """Grant the monitor role the privileges it needs, and revoke all others in the schema, as `apply`."""
    text = monitor_script(database.schema, monitor=monitor)
    async with database.connected("roles") as connection:
        with on_our_own(), calling(database.schema):
            await connection.execute(text)

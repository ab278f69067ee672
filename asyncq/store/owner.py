"""The owner of the schema: all objects in it belong to this role, not to the role that migrates.

Otherwise the owner could not replace the objects of other roles, and `enqueue` would run with the rights of those.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

import asyncpg

from asyncq.domain.errors import AccessDenied
from asyncq.domain.sentence import command

_DENIED = "42501"


async def create_schema(connection: asyncpg.Connection, schema: str) -> None:
    """Create the schema, for its owner alone, in a transaction; AccessDenied if the role may not."""
    try:
        await connection.execute(f"create schema {schema}; revoke all on schema {schema} from public")
    except asyncpg.InsufficientPrivilegeError as error:
        raise AccessDenied(
            f"the schema {schema!r} cannot be made: {error.message}; run `{command('migrate', schema)}` "
            "as the database's owner, or as a role that was granted CREATE on it",
            sqlstate=_DENIED,
        ) from error


async def become_owner(connection: asyncpg.Connection, schema: str) -> None:
    """Act as the schema's owner, if there is a schema, until the transaction ends; AccessDenied if the role cannot."""
    await _become(connection, schema, "set local role")


@asynccontextmanager
async def as_owner(connection: asyncpg.Connection, schema: str) -> AsyncGenerator[None]:
    """Act as the schema's owner, in no transaction, until the block ends; raises as `become_owner` does."""
    has_become = await _become(connection, schema, "set role")
    try:
        yield
    finally:
        if has_become:
            await connection.execute("reset role")


async def _become(connection: asyncpg.Connection, schema: str, how: str) -> bool:
    owner = await connection.fetchrow(_OWNER, schema)
    if owner is None or owner["is_me"]:
        return False
    refusal = AccessDenied(
        f"the schema {schema!r} belongs to {owner['name']}, and {owner['me']} cannot act for it; "
        f"run `{command('migrate', schema)}` as {owner['name']}, as a member of it, or as a superuser",
        sqlstate=_DENIED,
    )
    # The server would check the login role, and not the role that `-c role=...` has set.
    if not owner["may_act"]:
        raise refusal
    try:
        await connection.execute(f"{how} {owner['name']}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise refusal from error
    return True


async def hand_over(connection: asyncpg.Connection, schema: str, names: Collection[str]) -> None:
    """Give the schema's owner the objects of other roles, such as a superuser that restored a dump without owners.

    Only objects with these names are asyncq's own. The transaction does not act as the owner yet. AccessDenied if an
    object belongs to a role for which this one cannot act.
    """
    owner = await connection.fetchrow(_OWNER, schema)
    if owner is None:
        return
    rows = await connection.fetch(_FOREIGN, schema, sorted(names), owner["oid"])
    for row in rows:
        if not row["is_mine"]:
            raise AccessDenied(
                f"the schema {schema!r} belongs to {owner['name']}, but {row['what']} to {row['maker']}; "
                f"run `{command('migrate', schema)}` once as a superuser, "
                f"or as {row['maker']} if it is a member of {owner['name']}",
                sqlstate=_DENIED,
            )
    if rows:
        await connection.execute(";\n".join(f"alter {row['what']} owner to {owner['name']}" for row in rows))


# A role that may create objects in another role's schema, and has created asyncq's there, stays their owner.
_OWNER = """
select owner::regrole::text as name, me.oid::regrole::text as me, owner = me.oid as is_me, owner as oid,
  pg_catalog.pg_has_role(owner, 'member') as may_act
from (
  select case
    when pg_catalog.pg_has_role(book.relowner, space.nspowner, 'member') then space.nspowner
    when pg_catalog.has_schema_privilege(book.relowner, space.oid, 'create') then book.relowner
    else space.nspowner end as owner
  from pg_catalog.pg_namespace as space
  left join pg_catalog.pg_class as book on book.relnamespace = space.oid and book.relname = '_migrations'
  where space.nspname = $1) as found
join pg_catalog.pg_roles as me on me.rolname = current_user
"""

# A table's sequences, indexes and row type follow its owner.
_FOREIGN = """
with found as (
  select 'routine ' || routine.oid::regprocedure as what, routine.proowner as maker
  from pg_catalog.pg_proc as routine
  where routine.pronamespace = pg_catalog.to_regnamespace($1) and routine.proname = any($2::text[])
  union all
  select case relation.relkind when 'v' then 'view ' when 'c' then 'type ' else 'table ' end || relation.oid::regclass,
    relation.relowner
  from pg_catalog.pg_class as relation
  where relation.relnamespace = pg_catalog.to_regnamespace($1) and relation.relname = any($2::text[])
    and relation.relkind in ('r', 'p', 'v', 'c')
)
select what, maker::regrole::text as maker, pg_catalog.pg_has_role(maker, 'usage') as is_mine
from found
where maker <> $3
order by is_mine, what
"""

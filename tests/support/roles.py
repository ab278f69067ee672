"""Three roles with a schema, as the guide sets them up, and a role without rights; all are dropped at the end."""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec

from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.roles import apply
from tests.support.session import session

OWNERS = """
select distinct owner::regrole::text
from (
  select relowner from pg_class where relnamespace = 'asyncq'::regnamespace
  union all
  select proowner from pg_proc where pronamespace = 'asyncq'::regnamespace
  union all
  select typowner from pg_type where typnamespace = 'asyncq'::regnamespace) as found(owner)
order by owner
"""


class Roles(msgspec.Struct, frozen=True):
    """The names of the roles and of the schema.

    Attributes:
        dsn: The server, as a superuser.
    """

    dsn: str
    schema: str

    @property
    def owner(self) -> str:
        """Migrates."""
        return f"{self.schema}_owner"

    @property
    def worker(self) -> str:
        """Runs jobs."""
        return f"{self.schema}_worker"

    @property
    def enqueuer(self) -> str:
        """Adds jobs."""
        return f"{self.schema}_enqueuer"

    @property
    def stranger(self) -> str:
        """Has what PUBLIC has."""
        return f"{self.schema}_stranger"

    def dsn_of(self, role: str, **settings: str) -> str:
        """A DSN whose connections have a role, and other settings; no password is needed for it."""
        parts = urlsplit(self.dsn)
        more = urlencode({"options": f"-c role={role}", **settings})
        return urlunsplit(parts._replace(query=f"{parts.query}&{more}" if parts.query else more))

    async def grant(self) -> None:
        """Run sql/roles.sql, as the owner."""
        await apply(Database(self.dsn_of(self.owner), self.schema), worker=self.worker, enqueuer=self.enqueuer)


@asynccontextmanager
async def three_roles(dsn: str) -> AsyncIterator[Roles]:
    """A schema that its owner, no superuser, has migrated, and for which it has granted the others what they need."""
    async with bare_roles(dsn) as roles:
        await migrate(Database(roles.dsn_of(roles.owner), roles.schema))
        await roles.grant()
        yield roles


@asynccontextmanager
async def bare_roles(dsn: str) -> AsyncIterator[Roles]:
    """An empty schema with its owner, who is no superuser, and the other roles, without rights."""
    roles = Roles(dsn, f"r_{secrets.token_hex(6)}")
    names = (roles.owner, roles.worker, roles.enqueuer, roles.stranger)
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "test"})
    try:
        for name in names:
            await connection.execute(f"create role {name}")
        await connection.execute(f"create schema {roles.schema} authorization {roles.owner}")
        yield roles
    finally:
        await connection.execute("set client_min_messages = warning; set lock_timeout = '10s'")
        for name in names:
            await connection.execute(f"drop owned by {name} cascade; drop role {name}")
        await connection.close(timeout=5)


class Group:
    """A role that owns an empty schema, two that are its members, and one that may make things in the schema.

    Attributes:
        owner: The owner; like the others it is no superuser, and logs in.
        first: A member that has its rights.
        second: A member that has to act for it to have them.
        guest: None, but it may create in the schema.
    """

    def __init__(self, database: Database) -> None:
        self.owner, self.first, self.second, self.guest = (
            f"{database.schema}_{word}" for word in ("o", "m1", "m2", "g")
        )
        self._database = database

    @property
    def names(self) -> str:
        """All of them."""
        return f"{self.owner}, {self.first}, {self.second}, {self.guest}"

    def as_(self, role: str) -> Database:
        """The database for a role that logs in itself: a superuser could become any role."""
        return Database(self._database.dsn.replace("postgres@", f"{role}@", 1), self._database.schema)


@asynccontextmanager
async def group_of(database: Database) -> AsyncGenerator[Group]:
    """Make the roles and the schema; all are dropped at the end."""
    made = Group(database)
    async with session(database.dsn, database.schema) as sql:
        await sql.execute(f"""
            create role {made.owner} login; create role {made.guest} login;
            create role {made.first} login inherit in role {made.owner};
            create role {made.second} login noinherit in role {made.owner};
            create schema asyncq authorization {made.owner}; grant create, usage on schema asyncq to {made.guest}""")
        try:
            yield made
        finally:
            await sql.execute(f"""
                set client_min_messages = warning; drop schema asyncq cascade;
                drop owned by {made.names}; drop role {made.names}""")

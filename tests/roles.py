"""Three roles on a schema of their own, as the guide sets them up, and a stranger; all are gone at the end."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit, urlunsplit

import asyncpg
import msgspec

from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.roles import apply


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
    """An empty schema and its owner, no superuser, and the others, who may do nothing."""
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

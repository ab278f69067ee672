"""Roles whose names need quotes, as hosted databases and directories give them: everything works under each."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest

from asyncq import Client, Worker, task
from asyncq.domain.errors import AccessDenied
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.roles import apply
from tests.store.test_migrate import migration, release
from tests.support.roles import OWNERS
from tests.support.session import session

NAMES = ["Capital", "dot.ted", "mail@example.org", 'quo"te', "apo'strophe", "back\\slash", "two words", "Ünïcode"]


@task
async def noted() -> None:
    """Does nothing."""


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


class Odd:
    """An owner of a schema, a member of it, a worker role and an enqueuer role, which all log in.

    Attributes:
        schema: The schema.
    """

    def __init__(self, dsn: str, name: str) -> None:
        mark = secrets.token_hex(6)
        self.schema = f"o_{mark}"
        self.owner, self.member, self.worker, self.enqueuer = (f"{name}_{mark}_{word}" for word in "omwe")
        self._dsn = dsn

    def dsn_of(self, role: str) -> str:
        """The DSN of a role."""
        return self._dsn.replace("postgres@", f"{quote(role, safe='')}@", 1)

    def database(self, role: str) -> Database:
        """The database for a role."""
        return Database(self.dsn_of(role), self.schema)


@asynccontextmanager
async def odd_roles(dsn: str, name: str) -> AsyncGenerator[Odd]:
    """Make these roles, and remove them at the end."""
    odd = Odd(dsn, name)
    names = [quoted(role) for role in (odd.owner, odd.member, odd.worker, odd.enqueuer)]
    async with session(dsn, odd.schema) as sql:
        for role in names:
            await sql.connection.execute(f"create role {role} login")
        await sql.connection.execute(
            f"grant {names[0]} to {names[1]}; create schema {odd.schema} authorization {names[0]}"
        )
        try:
            yield odd
        finally:
            await sql.connection.execute(
                f"set client_min_messages = warning; drop schema {odd.schema} cascade; "
                f"drop owned by {', '.join(names)}; drop role {', '.join(names)}"
            )


@pytest.mark.parametrize("name", NAMES)
async def test_a_role_with_an_odd_name_does_all_that_others_do(
    dsn: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member migrates for the owner and grants twice. One role adds, one runs, the owner administers."""
    async with odd_roles(dsn, name) as odd:
        first = await migrate(odd.database(odd.member))
        await apply(odd.database(odd.owner), worker=odd.worker, enqueuer=odd.enqueuer)
        release(monkeypatch, migration("create table asyncq._later (id int)"))
        second = await migrate(odd.database(odd.owner))
        monkeypatch.undo()
        async with Client(odd.dsn_of(odd.enqueuer), schema=odd.schema) as client:
            await client.add_job(noted)
        await Worker(odd.dsn_of(odd.worker), [noted], schema=odd.schema).run_once()
        async with Client(odd.dsn_of(odd.owner), schema=odd.schema) as client:
            checkup = await client.admin.checkup()
            left = [job async for job in client.admin.iter_jobs()]
        async with session(dsn, odd.schema) as sql:
            owners = await sql.values(OWNERS)

        assert (True, 1, [], True) == (bool(first.applied), len(second.applied), left, checkup.is_healthy)
        assert [quoted(odd.owner)] == owners


@pytest.mark.parametrize("name", NAMES)
async def test_objects_of_another_role_with_an_odd_name_are_handed_over(dsn: str, name: str) -> None:
    """The error for a role that cannot do that names the owner, quoted as in SQL."""
    async with odd_roles(dsn, name) as odd, session(dsn, odd.schema) as sql:
        await migrate(odd.database(odd.owner))
        with pytest.raises(AccessDenied, match="cannot act for it"):
            await migrate(odd.database(odd.enqueuer))
        await sql.connection.execute(
            f"alter table {odd.schema}._jobs owner to {quoted(odd.worker)}; "
            f"grant usage on schema {odd.schema} to {quoted(odd.worker)}"
        )
        with pytest.raises(AccessDenied) as refused:
            await migrate(odd.database(odd.owner))
        await migrate(Database(dsn, odd.schema))
        owners = await sql.values(OWNERS)

        assert f"to {quoted(odd.worker)}; run" in str(refused.value)
        assert [quoted(odd.owner)] == owners

"""Migrating as the guide describes, with its roles: no role loses a right."""

import secrets
from collections.abc import AsyncIterator

import pytest

from asyncq.domain.errors import AccessDenied
from asyncq.store.database import Database
from tests.sql.test_roles import rights
from tests.support.grants import ENQUEUER, STRANGER, WORKER
from tests.support.roles import OWNERS, Roles, bare_roles, group_of
from tests.support.session import session
from tests.upgrades.conftest import Later
from tests.upgrades.releases import Release, apply

ADDS = {
    "worker": "select (asyncq.add_job('step')).id",
    "enqueuer": """select id from asyncq.enqueue('{"identifier": "step"}')""",
}


@pytest.fixture
async def roles(dsn: str, old: Release) -> AsyncIterator[Roles]:
    """The roles of a schema that the release before this one has made, and for which it has granted them their rights.

    Another worker role was granted them too: a schema may have several of a kind.
    """
    async with bare_roles(dsn) as made:
        await apply(old, owners(made))
        second = ("roles", "--worker", made.stranger, "--enqueuer", made.enqueuer)
        first = ("roles", "--worker", made.worker, "--enqueuer", made.enqueuer)
        for words in (second, first):
            target = ("--apply", "--dsn", made.dsn_of(made.owner), "--schema", made.schema)
            done = await old.runs(made.schema, "-m", "asyncq", *words, *target)
            assert 0 == done.returncode, done.stderr
        yield made


def owners(roles: Roles) -> Database:
    """The database, as the owner."""
    return Database(roles.dsn_of(roles.owner), roles.schema)


async def test_roles_that_could_add_before_a_migration_can_add_after_it(roles: Roles, later: Later) -> None:
    """A trigger, a client or a worker of the previous release adds.

    Nobody runs `asyncq roles` between the two steps.
    """
    before = [await added(roles, getattr(roles, role), text) for role, text in ADDS.items()]
    await apply(later(), owners(roles))
    after = [await added(roles, getattr(roles, role), text) for role, text in ADDS.items()]
    another = await added(roles, roles.stranger, ADDS["worker"])

    assert ([1, 2], [3, 4], 5) == (before, after, another)


async def added(roles: Roles, role: str, text: str) -> int:
    """Add a job as a role; returns its id."""
    async with session(roles.dsn_of(role), roles.schema) as sql:
        return await sql.value(text)


async def test_a_migration_gives_each_role_the_list_of_its_part(roles: Roles, later: Later) -> None:
    """Those that had none get none; nothing is left for `asyncq roles` to add."""
    async with session(roles.dsn, roles.schema) as sql:
        await sql.execute(f"revoke all on all functions in schema asyncq from {roles.stranger}")
        await sql.execute(f"revoke all on all tables in schema asyncq from {roles.stranger}")
        await sql.execute(f"revoke all on all sequences in schema asyncq from {roles.stranger}")
        await sql.execute(f"revoke all on schema asyncq from {roles.stranger}")
        await apply(later(), owners(roles))
        found = [await rights(sql, role) for role in (roles.worker, roles.enqueuer, roles.stranger)]

    assert [WORKER, ENQUEUER, STRANGER] == found


async def test_a_migration_with_nothing_pending_grants_nothing(roles: Roles, later: Later) -> None:
    """Migrations run at each deployment. Rights that the owner revoked in between must stay revoked."""
    new = later()
    await apply(new, owners(roles))
    async with session(roles.dsn, roles.schema) as sql:
        await sql.execute(f"revoke all on function asyncq.counts from {roles.worker}")
        await apply(new, owners(roles))
        found = await rights(sql, roles.worker)

    assert {"function counts"} == WORKER.keys() - found.keys()


async def test_objects_that_a_member_of_the_owner_created_go_to_the_owner(dsn: str, old: Release, later: Later) -> None:
    """Only that member can transfer it. Then each of them can migrate."""
    database, new = Database(dsn, f"t_{secrets.token_hex(6)}"), later("create table asyncq.later ()")
    async with group_of(database) as group, session(dsn, database.schema) as sql:
        target = ("--dsn", group.as_(group.first).dsn, "--schema", database.schema)
        done = await old.runs(database.schema, "-m", "asyncq", "migrate", *target)
        await sql.execute(f"alter function asyncq.now() owner to {group.first}")
        before = await sql.values(OWNERS)
        with pytest.raises(AccessDenied, match=f"to {group.owner}, but .* to {group.first}; run .* as {group.first}"):
            await apply(new, group.as_(group.second))
        reports = [await apply(new, group.as_(role)) for role in (group.first, group.second, group.owner)]

        assert (0, {group.first, group.owner}) == (done.returncode, {*before})
        assert [True, False, False] == [bool(report.applied) for report in reports]
        assert [group.owner] == await sql.values(OWNERS)

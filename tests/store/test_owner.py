"""`store.owner`: every created object belongs to the schema's owner, whichever role migrates."""

import pytest

from asyncq.domain.errors import AccessDenied
from asyncq.store import migrate as module
from asyncq.store.database import Database
from asyncq.store.migrate import migrate, migrations
from tests.store.test_migrate import ALONE, NEWEST, migration, release
from tests.support.roles import OWNERS, group_of
from tests.support.session import Session, session

TABLE = """
create table asyncq.later (id int generated always as identity);
create type asyncq.later_type as (id int);
create view asyncq.later_view as select id from asyncq.later
"""


async def test_objects_that_members_of_the_owner_create_belong_to_the_owner(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any member of a team deploys, and so does the owner. The first one must not lock the others out."""
    owners: list[tuple[object, ...]] = []
    async with group_of(new) as group:
        for number, role in enumerate((group.first, group.second, group.owner)):
            more = (migration(ALONE), migration(TABLE, NEWEST + 2))[:number]
            release(monkeypatch, *more)
            report = await migrate(group.as_(role))
            owners.append((len(report.applied), *await bare.values(OWNERS)))
            monkeypatch.undo()

        assert [(len(migrations()), group.owner), (1, group.owner), (1, group.owner)] == owners
        assert group.owner == await bare.value(
            "select relowner::regrole::text from pg_class where oid = 'asyncq.later_index'::regclass"
        )


async def test_a_member_acts_as_the_owner_for_the_migration_only(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later statements on its connection use its own role."""
    release(monkeypatch, migration(ALONE))
    async with group_of(new) as group, session(group.as_(group.second).dsn, new.schema) as member:
        await module.migrate_on(member.connection, new.schema)
        roles = await member.row("select current_user::text, session_user::text")

        assert (group.second, group.second) == tuple(roles)
        assert [group.owner] == await bare.values(OWNERS)


async def test_objects_that_a_superuser_creates_belong_to_the_owner(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `enqueue` would have the rights of a superuser, and the owner could not migrate any more."""
    async with group_of(new) as group:
        await migrate(new)
        found = await bare.values(OWNERS)
        release(monkeypatch, migration(TABLE))
        await migrate(group.as_(group.owner))

        assert [group.owner] == found == await bare.values(OWNERS)


async def test_a_superuser_gives_the_owner_the_objects_of_others(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore without owners needs this. Grants stay, and other programs' objects keep their owner."""
    async with group_of(new) as group:
        release(monkeypatch, migration(TABLE))
        await migrate(new)
        await bare.execute(f"""
            create function asyncq.theirs() returns int language sql as 'select 7';
            alter table asyncq._jobs owner to postgres; alter function asyncq.enqueue owner to postgres;
            alter view asyncq.jobs owner to postgres; alter type asyncq.job_spec owner to postgres;
            alter table asyncq._migrations owner to postgres;
            grant execute on function asyncq.enqueue to {group.guest}""")
        with pytest.raises(AccessDenied, match=f"belongs to {group.owner}, but .* to postgres; run .* as a superuser"):
            await migrate(group.as_(group.owner))
        await migrate(new)
        await migrate(group.as_(group.owner))

        assert await bare.value("select has_function_privilege($1, 'asyncq.enqueue(json)', 'execute')", group.guest)
        assert "postgres" == await bare.value(
            "select proowner::regrole::text from pg_proc where oid = 'asyncq.theirs()'::regprocedure"
        )
        await bare.execute("drop function asyncq.theirs()")
        assert [group.owner] == await bare.values(OWNERS)


async def test_the_error_of_a_role_that_cannot_act_for_the_owner_names_the_owner(new: Database, bare: Session) -> None:
    """This holds even if the role may create objects in the schema, since they would be its own."""
    async with group_of(new) as group:
        with pytest.raises(AccessDenied, match=f"belongs to {group.owner}, and {group.guest} cannot act for it; run"):
            await migrate(group.as_(group.guest))

        assert [] == await bare.values(OWNERS)


async def test_a_role_that_created_everything_in_another_ones_schema_can_migrate(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator owns the schema, and the application may create in it. No object becomes the administrator's."""
    async with group_of(new) as group:
        await bare.execute(f"alter schema asyncq owner to {group.guest}")
        await migrate(group.as_(group.guest))
        await bare.execute(
            f"alter schema asyncq owner to postgres; grant create, usage on schema asyncq to {group.guest}"
        )
        release(monkeypatch, migration(TABLE))
        reports = [await migrate(group.as_(group.guest)), await migrate(new)]

        assert [1, 0] == [len(report.applied) for report in reports]
        assert [group.guest] == await bare.values(OWNERS)


async def test_the_error_of_a_role_that_may_not_create_the_schema_names_the_missing_right(
    new: Database, bare: Session
) -> None:
    """Small roles meet this error first. The role cannot know that grants of `asyncq roles` do not help."""
    async with group_of(new) as group:
        await bare.execute("drop schema asyncq")
        said = f"cannot be made: .*denied.*; run `asyncq migrate --schema {new.schema}` .* granted CREATE on it"
        with pytest.raises(AccessDenied, match=said):
            await migrate(group.as_(group.guest))
        await bare.execute("create schema asyncq")

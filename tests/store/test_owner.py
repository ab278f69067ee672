"""`store.owner`: whoever migrates, all that is made belongs to the schema's owner."""

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


async def test_what_members_of_the_owner_make_belongs_to_the_owner(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a team deploys, and so does the owner: who was first must not lock the others out."""
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
    """What comes on its connection afterwards is its own."""
    release(monkeypatch, migration(ALONE))
    async with group_of(new) as group, session(group.as_(group.second).dsn, new.schema) as member:
        await module.migrate_on(member.connection, new.schema)
        roles = await member.row("select current_user::text, session_user::text")

        assert (group.second, group.second) == tuple(roles)
        assert [group.owner] == await bare.values(OWNERS)


async def test_what_a_superuser_makes_belongs_to_the_owner(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`enqueue` would run with the rights of a superuser, and the owner could not migrate any more."""
    async with group_of(new) as group:
        await migrate(new)
        found = await bare.values(OWNERS)
        release(monkeypatch, migration(TABLE))
        await migrate(group.as_(group.owner))

        assert [group.owner] == found == await bare.values(OWNERS)


async def test_a_superuser_gives_the_owner_what_somebody_else_has_made(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restore without owners. Roles keep what they were granted, and what is not ours keeps its owner."""
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


async def test_who_cannot_act_for_the_owner_is_told_who_that_is(new: Database, bare: Session) -> None:
    """Also where he could make things in the schema: they would be his."""
    async with group_of(new) as group:
        with pytest.raises(AccessDenied, match=f"belongs to {group.owner}, and {group.guest} cannot act for it; run"):
            await migrate(group.as_(group.guest))

        assert [] == await bare.values(OWNERS)


async def test_who_has_made_everything_in_the_schema_of_another_one_goes_on(
    new: Database, bare: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator's schema, in which the application may create: nothing becomes the administrator's."""
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


async def test_who_may_not_make_the_schema_is_told_which_right_is_missing(new: Database, bare: Session) -> None:
    """The first thing that a small role meets; that what `asyncq roles` grants is of no use here, it cannot know."""
    async with group_of(new) as group:
        await bare.execute("drop schema asyncq")
        said = f"cannot be made: .*denied.*; run `asyncq migrate --schema {new.schema}` .* granted CREATE on it"
        with pytest.raises(AccessDenied, match=said):
            await migrate(group.as_(group.guest))
        await bare.execute("create schema asyncq")

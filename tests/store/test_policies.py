"""Row level security on our tables: workers, clients and `doctor` name it; without that, workers would be idle."""

import asyncpg
import pytest

from asyncq import Client, ConfigurationError, Worker, task
from asyncq.store.database import Database
from asyncq.store.migrate import migrate
from asyncq.store.statements import render
from tests.support.roles import Roles, three_roles
from tests.support.session import session

SECURE = "alter table asyncq.{} enable row level security"


@task
async def idle() -> None:
    """Never run here."""


def said(schema: str, *tables: str) -> str:
    """The part of the error about these tables."""
    named = ", ".join(f"{schema}.{name}" for name in tables)
    mend = "; ".join(f"alter table {schema}.{name} disable row level security" for name in tables)
    return (
        f"row level security hides rows of {named} from this role, so jobs would wait unseen; run as its owner: {mend}"
    )


async def refusals(roles: Roles, role: str) -> list[str]:
    """The errors of a worker and a client of a role at their start; empty if they start."""
    found: list[str] = []
    worker = Worker(roles.dsn_of(role), [idle], schema=roles.schema)
    try:
        await worker.run_once()
    except ConfigurationError as error:
        found.append(str(error))
    try:
        async with Client(roles.dsn_of(role), schema=roles.schema):
            pass
    except ConfigurationError as error:
        found.append(str(error))
    return found


@pytest.mark.parametrize("tables", [["_jobs"], ["_batches", "_workers"], ["known_crontabs"]], ids=",".join)
async def test_a_role_from_which_rows_are_hidden_is_refused(dsn: str, tables: list[str]) -> None:
    """A policy may exist or not. The owner sees all rows, unless policies are forced."""
    async with three_roles(dsn) as roles, session(dsn, roles.schema) as sql:
        await sql.execute("; ".join(map(SECURE.format, tables)))
        bare = await refusals(roles, roles.worker)
        await sql.execute(f"create policy all_rows on asyncq.{tables[0]} to public using (true)")
        permissive = await refusals(roles, roles.worker)
        free = await refusals(roles, roles.owner)
        await sql.execute("; ".join(f"alter table asyncq.{name} force row level security" for name in tables))
        forced = await refusals(roles, roles.owner)
        await sql.execute("; ".join(f"alter table asyncq.{name} disable row level security" for name in tables))
        mended = await refusals(roles, roles.worker)

        expected = [said(roles.schema, *tables)] * 2
        assert (expected, expected, [], expected, []) == (bare, permissive, free, forced, mended)


async def test_a_role_that_bypasses_policies_is_free(dsn: str) -> None:
    """The attribute is made for that."""
    async with three_roles(dsn) as roles, session(dsn, roles.schema) as sql:
        await sql.execute(f"{SECURE.format('_jobs')}; alter role {roles.worker} bypassrls")

        assert [] == await refusals(roles, roles.worker)


async def test_doctor_names_secured_tables_to_an_owner_who_sees_all(
    client: Client, db: asyncpg.Connection, schema: str
) -> None:
    """The owner sees them, but its workers, under another role, would find nothing."""
    mend = f"alter table {schema}._jobs disable row level security"
    expected = f"row level security hides jobs from every role but the owner; run as its owner: {mend}"
    await db.execute(render(SECURE.format("_jobs"), schema))
    checkup = await client.admin.checkup()
    await db.execute(mend)

    assert [("policies", "problem", expected)] == [
        (one.check, one.level, one.said) for one in checkup.findings if one.check == "policies"
    ]
    assert not checkup.is_healthy


async def test_a_table_of_others_in_the_schema_may_be_secured(dsn: str, db: asyncpg.Connection, schema: str) -> None:
    """It is not ours to judge."""
    await migrate(Database(dsn, schema))
    await db.execute(render("create table asyncq.theirs (); " + SECURE.format("theirs"), schema))
    async with Client(dsn, schema=schema) as client:
        checkup = await client.admin.checkup()
    await db.execute(render("drop table asyncq.theirs", schema))

    assert () == checkup.secured

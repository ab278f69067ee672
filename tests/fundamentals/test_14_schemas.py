"""Everything that asyncq keeps is in one schema of PostgreSQL, called `asyncq` unless you say otherwise."""

import asyncpg
import pytest

from asyncq import Client, ConfigurationError, SchemaMissing, Worker, task
from asyncq.testing import run_due, temporary_schema


@task
async def greet(name: str) -> None:
    """Greet a user."""


async def test_a_schema_is_installed_by_migrate(dsn: str, db: asyncpg.Connection) -> None:
    """`asyncq migrate` on the command line does the same. Again it does nothing; many may do it at once."""
    try:
        first = await Client(dsn, schema="shop_jobs").migrate()
        second = await Client(dsn, schema="shop_jobs").migrate()
    finally:
        await db.execute("drop schema if exists shop_jobs cascade")

    assert first.applied
    assert (second.applied, second.version) == ((), first.version)


async def test_nothing_is_installed_behind_your_back(dsn: str) -> None:
    """The error says what to run."""
    with pytest.raises(SchemaMissing, match=r"'nowhere' is not installed; run `asyncq migrate --schema nowhere`"):
        async with Client(dsn, schema="nowhere"):
            pass


async def test_a_worker_installs_the_schema_when_asked(dsn: str, db: asyncpg.Connection) -> None:
    """`migrate=True`, for development and for services that bring their own database."""
    try:
        await Worker(dsn, [greet], schema="shop_jobs", migrate=True).run_once()
        added = await db.fetchval("""select (shop_jobs.add_job('greet', '{"name": "Ada"}')).id""")
    finally:
        await db.execute("drop schema if exists shop_jobs cascade")

    assert added


async def test_two_schemas_are_independent(dsn: str, schema: str, client: Client) -> None:
    """Two applications, or two environments, can share a database."""
    added = await client.add_job(greet, "Ada")

    async with temporary_schema(dsn) as other:
        there = await run_due(dsn, [greet], schema=other)
    here = await run_due(dsn, [greet], schema=schema)

    assert (there.started, here.completed) == ([], [added.id])


async def test_a_schemas_name_needs_no_quotes(dsn: str) -> None:
    """Names are used in SQL without quotes: lower case, digits and underscores, no reserved word."""
    with pytest.raises(ConfigurationError, match="'Shop' cannot be used"):
        Client(dsn, schema="Shop")

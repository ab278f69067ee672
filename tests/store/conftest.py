"""Fixtures of the store's tests: a schema of its own for each, in which claims may be left, but no connection."""

import secrets
from collections.abc import AsyncIterator

import pytest

from asyncq.store.database import Database, ReconnectingConnection
from tests.support.gate import Gate
from tests.support.jobs import claim_next, fetched
from tests.support.landlord import Landlord
from tests.support.session import KeptConnections, Session, session
from tests.support.waiting import wait_until

GATED = {"application_name": "gated", "plan_cache_mode": "force_generic_plan"}


@pytest.fixture
async def schema(landlord: Landlord) -> AsyncIterator[str]:
    """The name of an installed schema that only this test uses; at its end no connection of the store is left."""
    async with landlord.schema() as name:
        yield name

        async def all_closed() -> bool:
            return not await landlord.connections(name)

        await wait_until(all_closed, description="the store's connections to be closed")


@pytest.fixture
async def bare(dsn: str) -> AsyncIterator[Session]:
    """A session on a schema that is not installed; it is dropped afterwards."""
    async with session(dsn, f"t_{secrets.token_hex(6)}") as opened:
        yield opened
        await opened.execute("set client_min_messages = warning; drop schema if exists asyncq cascade")


@pytest.fixture
def new(dsn: str, bare: Session) -> Database:
    """The database of the schema that is not installed."""
    return Database(dsn, bare.schema)


@pytest.fixture
def database(dsn: str, schema: str) -> Database:
    """The database, as the store names it."""
    return Database(dsn, schema)


@pytest.fixture
async def line(database: Database) -> AsyncIterator[ReconnectingConnection]:
    """A line like that of a worker's fetcher, with a lock timeout so that a test fails instead of hanging."""
    opened = ReconnectingConnection(database, "test", generic_plans=True, lock_timeout_s=5.0)
    yield opened
    await opened.close()


@pytest.fixture
async def sql(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Session]:
    """A session that commits each statement."""
    async with kept_connections.session(schema) as opened:
        yield opened


@pytest.fixture
async def other(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Session]:
    """A second session, for another caller."""
    async with kept_connections.session(schema) as opened:
        yield opened


@pytest.fixture
async def gate(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Gate]:
    """Pauses statements between their snapshot and their locks; see `Gate`."""
    async with kept_connections.session(schema) as keeper, kept_connections.session(schema) as watcher:
        made = Gate(keeper, watcher)
        await made.build()
        yield made
        await made.remove()


@pytest.fixture
async def fetcher(kept_connections: KeptConnections, schema: str, gate: Gate) -> AsyncIterator[Session]:
    """A session whose planned fetches and `claim_next` can be paused at the gate."""
    async with kept_connections.session(schema) as opened:
        await opened.execute("set application_name = 'gated'")
        await fetched(opened, 0)
        await fetched(opened, 0)
        await claim_next(opened, [])
        yield opened


@pytest.fixture
async def guarded(dsn: str, schema: str, gate: Gate) -> AsyncIterator[Session]:
    """A session whose statements can be paused at the gate when they read a job."""
    role = f"guarded_{schema}"
    async with session(dsn, schema, **GATED) as opened:
        await opened.execute(f"create role {role}")
        await gate.guard(role)
        await opened.execute(f"set role {role}")
        yield opened
        await opened.execute(f"reset role; drop owned by {role}; drop role {role}")

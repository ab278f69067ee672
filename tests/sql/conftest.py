"""Fixtures of the SQL tests: all share one installed schema; each test is rolled back."""

from collections.abc import AsyncIterator

import pytest

from asyncq.testing import temporary_schema
from tests.support.ear import Ear
from tests.support.json_texts import leave_out_marks_of_14
from tests.support.session import KeptConnections, Session, session
from tests.support.watching import Told


@pytest.fixture(scope="package")
async def installed(dsn: str) -> AsyncIterator[str]:
    """A schema that the tests of this folder share."""
    async with temporary_schema(dsn) as name:
        async with session(dsn, name) as opened:
            if opened.connection.get_server_version().major < 15:
                leave_out_marks_of_14()
        yield name


@pytest.fixture
async def sql(kept_connections: KeptConnections, installed: str) -> AsyncIterator[Session]:
    """A session inside a transaction that is rolled back: the test finds the schema empty, and leaves it so."""
    async with kept_connections.session(installed) as opened:
        transaction = opened.connection.transaction()
        await transaction.start()
        yield opened
        await transaction.rollback()


@pytest.fixture
async def own(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Session]:
    """A session on the test's own schema, for tests that commit."""
    async with kept_connections.session(schema) as opened:
        yield opened


@pytest.fixture
async def claiming(own: Session) -> AsyncIterator[Session]:
    """The same, for claims that are left at the end."""
    yield own
    await own.rows("select from asyncq._rescue_jobs(true)")


@pytest.fixture
async def ear(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Ear]:
    """An ear at the channel of the test's own schema."""
    async with kept_connections.session(schema) as listener:
        opened = Ear(listener)
        await opened.open()
        yield opened


@pytest.fixture
async def idle(kept_connections: KeptConnections, own: Session) -> AsyncIterator[Session]:
    """A worker's connection that listens; the workers that opened slots on it are forgotten at the end."""
    async with kept_connections.session(own.schema) as opened:
        yield opened
        await own.execute("delete from asyncq._jobs; delete from asyncq._batches; delete from asyncq._workers")


@pytest.fixture
async def told(kept_connections: KeptConnections, claiming: Session) -> AsyncIterator[Told]:
    """A client that listens."""
    async with kept_connections.session(claiming.schema) as listener:
        opened = Told(listener)
        await opened.open()
        yield opened

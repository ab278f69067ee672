"""The monitor role reads numbers, and no secret of a job."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from asyncq.store.database import Database
from asyncq.store.roles import apply_monitor, grantees
from asyncq.store.statements import render
from tests.support.jobs import add
from tests.support.roles import Roles, three_roles
from tests.support.session import Session, session

READS = [
    "select * from asyncq.stats()",
    "select * from asyncq.depths()",
    "select * from asyncq.failures()",
    "select * from asyncq.failed_jobs()",
    "select asyncq.backlog()",
    "select asyncq.backlog('{t}')",
    "select asyncq.oldest_due()",
    "select * from asyncq.depths_by()",
    "select * from asyncq.running()",
    "select * from asyncq.counts()",
    "select * from asyncq.explain(1)",
    "select * from asyncq.workers()",
    "select * from asyncq.known_crontabs",
]
REFUSED = [
    "select * from asyncq._jobs",
    "select * from asyncq.jobs",
    "select asyncq.find_jobs()",
    "select * from asyncq.get_job(1)",
    "select asyncq.retry_jobs('{1}')",
    "select asyncq.change_matching('{}', 'remove', 9)",
    "select asyncq.add_job('t')",
    'select asyncq.enqueue(\'{"identifier": "t"}\')',
    "select * from asyncq._attempts",
    "select * from asyncq.history",
    "select * from asyncq._cron_items",
]


@pytest.fixture(scope="module")
async def roles(dsn: str) -> AsyncIterator[Roles]:
    """The roles of this file; the monitor is the one that has no other rights."""
    async with three_roles(dsn) as made:
        await apply_monitor(Database(made.dsn, made.schema), monitor=made.stranger)
        async with session(made.dsn, made.schema) as sql:
            job = await add(sql, queue="q", payload='{"secret": "s3cret"}')
            await sql.rows(
                """
                update asyncq._jobs set attempts = max_attempts, key = 's3cret', meta = '{"secret": "s3cret"}',
                  last_error = E'OSError: no disk\\ns3cret' where id = $1""",
                job,
            )
        yield made


@pytest.fixture
async def monitor(roles: Roles) -> AsyncIterator[Session]:
    """A session of the role."""
    async with session(roles.dsn_of(roles.stranger), roles.schema) as sql:
        yield sql


@pytest.mark.parametrize("text", READS)
async def test_it_reads_numbers_and_no_secret(monitor: Session, text: str) -> None:
    """Payload, meta, key, and the further lines of an error stay hidden."""
    rows = await monitor.rows(text)

    assert "s3cret" not in str(rows)
    if "fail" in text:
        assert "OSError: no disk" in str(rows)


@pytest.mark.parametrize("text", REFUSED)
async def test_all_else_is_refused(monitor: Session, text: str) -> None:
    """It can neither read jobs nor change any."""
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await monitor.connection.execute(render(text, monitor.schema))


async def test_a_role_that_has_more_to_do_is_refused(roles: Roles) -> None:
    """Its rights would be revoked."""
    for role in (roles.owner, roles.worker, roles.enqueuer):
        with pytest.raises(Exception, match="choose another one"):
            await apply_monitor(Database(roles.dsn, roles.schema), monitor=role)


async def test_a_migration_knows_it(roles: Roles) -> None:
    """It grants the rights of new functions."""
    async with session(roles.dsn, roles.schema) as sql:
        found = await grantees(sql.connection, roles.schema)

    assert [("enqueuer", roles.enqueuer), ("monitor", roles.stranger), ("worker", roles.worker)] == found

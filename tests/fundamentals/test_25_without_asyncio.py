"""A program without asyncio adds jobs with a `SyncClient`, over the connection that it has."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

from asyncq import JobNotFound, SyncClient, task

# Lets tests without a loop use the fixtures that need one.
pytestmark = pytest.mark.usefixtures("anyio_backend")


@task
def send_bill(order: int) -> None:
    """Send the bill of an order."""


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    """The engine of the application."""
    made = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.dispose()


def test_a_job_is_part_of_the_session(dsn: str, schema: str, engine: Engine) -> None:
    """Others see it after the commit: no order exists without its job, and no job without its order."""
    jobs = SyncClient(dsn, schema=schema, tasks=[send_bill])
    with Session(engine) as session:
        added = jobs.add_job(send_bill, 7, connection=session)
        with pytest.raises(JobNotFound):
            jobs.get_job(added.id)
        session.commit()

    assert jobs.get_job(added.id).payload == '{"order":7}'


def test_a_job_of_a_session_that_rolls_back_never_was(dsn: str, schema: str, engine: Engine) -> None:
    """The add may be the first statement of the session: it begins the transaction."""
    jobs = SyncClient(dsn, schema=schema, tasks=[send_bill])
    with Session(engine) as session:
        added = jobs.add_job(send_bill, 7, connection=session)
        session.execute(text("select 1"))
        session.rollback()

    with pytest.raises(JobNotFound):
        jobs.get_job(added.id)


def test_psycopg_needs_nothing_else(dsn: str, schema: str) -> None:
    """A connection or a cursor; Django's connection is taken in the same way."""
    jobs = SyncClient(dsn, schema=schema)
    with psycopg.connect(dsn) as connection:
        added = jobs.add_job(send_bill, 7, connection=connection)
        cancelled = jobs.cancel_jobs([added.id], connection=connection)

    assert [job.id for job in cancelled] == [added.id]


def test_without_a_connection_a_call_commits_when_it_returns(dsn: str, schema: str) -> None:
    """The client connects by psycopg for each call. A service gives it a pool."""
    jobs = SyncClient(dsn, schema=schema)
    added = jobs.add_job("send_bill", {"order": 7})

    assert jobs.get_job(added.id).task == "send_bill"

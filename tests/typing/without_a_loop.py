"""The types of `SyncClient`, and of the connections that it takes; lines with `# error:` must be refused."""

# ruff: noqa: D103

from collections.abc import Sequence
from typing import Any, assert_type

import asyncpg
import psycopg
import psycopg_pool
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from asyncq import Added, Job, JobSpec, SyncAdd, SyncClient, task


@task
def rollup(day: str, dry_run: bool = False) -> None: ...


@task
def tidy() -> None: ...


def adding(client: SyncClient, session: Session) -> None:
    assert_type(client.add_job(rollup, "2030-01-01"), Added)
    assert_type(client.add_job(tidy), Added)
    assert_type(client.add_job("rollup", {"day": "2030-01-01"}, priority=1), Added)
    assert_type(client.add_job(rollup.job(day="2030-01-01"), connection=session), Added)
    assert_type(client.add_jobs([rollup.job(day="2030-01-01")], connection=session), list[Added])
    assert_type(client.get_job(1, connection=session), Job)
    assert_type(client.remove_job("k"), Job | None)
    assert_type(client.cancel_jobs([1], connection=session), list[Job])
    client.add_job(rollup, 5)  # error: a text
    client.add_job(tidy, 5)  # error: no payload
    client.add_job(tidy, priorty=5)  # error: no such option
    client.add_jobs(["rollup"])  # error: specs


def connections(
    client: SyncClient,
    connection: Connection,
    scoped: scoped_session[Session],
    plain: psycopg.Connection,
    odd: psycopg.Connection[dict[str, Any]],
    cursor: psycopg.Cursor[dict[str, Any]],
) -> None:
    client.add_job(tidy, connection=connection)
    client.add_job(tidy, connection=scoped)
    client.add_job(tidy, connection=plain)
    client.add_job(tidy, connection=odd, autocommit=True)
    client.add_job(tidy, connection=cursor)
    client.add_job(tidy, connection="default")
    client.add_job(tidy, connection=5)  # error: no connection
    client.add_job(tidy, connection=create_engine("postgresql+psycopg://"))  # error: an engine


def asynchronous(
    client: SyncClient,
    session: AsyncSession,
    connection: AsyncConnection,
    plain: psycopg.AsyncConnection,
    cursor: psycopg.AsyncCursor,
    other: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    client.add_job(tidy, connection=session)  # error: asynchronous
    client.add_job(tidy, connection=connection)  # error: asynchronous
    client.add_job(tidy, connection=plain)  # error: asynchronous
    client.add_job(tidy, connection=cursor)  # error: asynchronous
    client.add_job(tidy, connection=other)  # error: asynchronous


def marking(specs: Sequence[JobSpec], add: SyncAdd) -> list[Added]:
    return add(specs)


async def waiting(specs: Sequence[JobSpec], add: SyncAdd) -> None: ...


def own(pool: psycopg_pool.ConnectionPool) -> None:
    SyncClient("postgresql://h", tasks=[rollup, tidy], middleware=[marking])
    SyncClient(pool=pool)
    SyncClient(pool="postgresql://h")  # error: no pool

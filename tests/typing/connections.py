"""The connections that `connection=` takes: those of four libraries, but no synchronous ones.

Lines with `# error:` must be refused.
"""

# ruff: noqa: D103

from typing import Any

import asyncpg
import psycopg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelSession

from asyncq import Client, JobContext, task


@task
async def nothing() -> None: ...


async def asyncpgs(client: Client, db: asyncpg.Connection[Any], pool: asyncpg.Pool[Any]) -> None:
    await client.add_job(nothing, connection=db)
    async with pool.acquire() as acquired:
        await client.add_job(nothing, connection=acquired)
    await client.add_job(nothing, connection=pool)  # error: a pool is no connection


async def sqlalchemys(client: Client, session: AsyncSession, db: AsyncConnection, model: SqlmodelSession) -> None:
    await client.add_job(nothing, connection=session)
    await client.add_jobs([nothing.job()], connection=db, autocommit=True)
    await client.get_job(1, connection=model)
    await client.admin.cancel_jobs([1], connection=session)
    await client.cron.pause("item", connection=session)


async def scoped(ctx: JobContext, session: async_scoped_session[AsyncSession], engine: AsyncEngine) -> None:
    await ctx.add_job(nothing, connection=session)
    await ctx.add_job(nothing, connection=engine)  # error: an engine is no connection
    async with engine.begin() as connection:
        await ctx.add_job(nothing, connection=connection)
        await ctx.complete(connection=connection)  # error: it takes a connection of asyncpg


async def psycopgs(client: Client, db: psycopg.AsyncConnection[Any], cursor: psycopg.AsyncCursor[Any]) -> None:
    await client.add_job(nothing, connection=db)
    await client.add_job(nothing, connection=cursor)


async def synchronous(
    client: Client, session: Session, db: Connection, other: psycopg.Connection[Any], cursor: psycopg.Cursor[Any]
) -> None:
    await client.add_job(nothing, connection=session)  # error: it is synchronous
    await client.add_job(nothing, connection=db)  # error: it is synchronous
    await client.add_job(nothing, connection=other)  # error: it is synchronous
    await client.add_job(nothing, connection=cursor)  # error: it is synchronous
    await client.add_job(nothing, connection="default")  # error: a text is no connection

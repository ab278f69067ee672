"""Databases whose default collation belongs to ICU."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest


@asynccontextmanager
async def icu_database(dsn: str, locale: str) -> AsyncGenerator[str]:
    """The DSN of a new database with the order of a locale; it is dropped at the end.

    Args:
        dsn: The server, as a superuser.
        locale: A locale of ICU, such as `en-US`.
    """
    name = f"t_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(dsn)
    try:
        if not await connection.fetchval("select exists (select from pg_collation where collname = 'en-x-icu')"):
            pytest.skip("this PostgreSQL has no ICU")
        if connection.get_server_version().major < 15:
            pytest.skip("before 15 no database has an order of ICU's")
        await connection.execute(f"create database {name} template template0 locale_provider icu icu_locale '{locale}'")
        yield urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
    finally:
        await connection.execute(f"drop database if exists {name} with (force)")
        await connection.close(timeout=5)


async def change_locale(dsn: str, locale: str) -> None:
    """Change the order of a database under its indexes, as an upgrade of ICU does; new sessions have it.

    Args:
        dsn: The database, as a superuser.
        locale: A locale of ICU.
    """
    connection = await asyncpg.connect(dsn)
    try:
        column = "daticulocale" if connection.get_server_version().major < 17 else "datlocale"
        await connection.execute(
            f"update pg_catalog.pg_database set {column} = $1 where datname = current_database()", locale
        )
    finally:
        await connection.close(timeout=5)

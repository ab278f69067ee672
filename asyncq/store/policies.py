"""Checks row level security on asyncq's tables: it hides rows from a role without an error."""

import asyncpg

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import allow_all_rows
from asyncq.store.failures import calling
from asyncq.store.statements import query


async def secured_tables(connection: asyncpg.Connection, schema: str) -> dict[str, bool]:
    """Read the tables that have row level security: name -> whether its policies apply to the connection's role."""
    with calling(schema):
        rows = await connection.fetch(query("row_security", schema))
    return {row["name"]: row["is_active"] for row in rows}


async def check_policies(connection: asyncpg.Connection, schema: str) -> None:
    """Raise ConfigurationError for a role to which policies apply; even one that shows all rows now may change."""
    tables = [name for name, is_active in (await secured_tables(connection, schema)).items() if is_active]
    if tables:
        raise ConfigurationError(
            f"row level security hides rows of {', '.join(f'{schema}.{name}' for name in tables)} from this role, "
            f"so jobs would wait unseen; {allow_all_rows(schema, tables)}"
        )

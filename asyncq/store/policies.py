"""Checks row level security on asyncq's tables: it hides rows from a role without an error."""

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.sentence import allow_all_rows
from asyncq.store.database import Connection, Database


async def secured_tables(database: Database, connection: Connection) -> dict[str, bool]:
    """Read the tables that have row level security: name -> whether its policies apply to the connection's role."""
    return {row["name"]: row["is_active"] for row in await database.fetch(connection, "row_security")}


async def check_policies(database: Database, connection: Connection) -> None:
    """Raise ConfigurationError for a role to which policies apply; even one that shows all rows now may change."""
    schema = database.schema
    if tables := [name for name, is_active in (await secured_tables(database, connection)).items() if is_active]:
        raise ConfigurationError(
            f"row level security hides rows of {', '.join(f'{schema}.{name}' for name in tables)} from this role, "
            f"so jobs would wait unseen; {allow_all_rows(schema, tables)}"
        )

"""The schema that holds the jobs, and its statements on any connection."""

from typing import Any

import asyncpg

from asyncq.domain.codec import Envelopes
from asyncq.store.failures import calling
from asyncq.store.statements import check_schema, query


class Schema:
    """The statements of sql/queries for one schema; ConfigurationError if its name cannot be used.

    Attributes:
        schema: The schema's name.
        envelopes: Encodes and decodes what is stored; None without a codec.
    """

    def __init__(self, schema: str, envelopes: Envelopes | None = None) -> None:
        self.schema = check_schema(schema)
        self.envelopes = envelopes

    def query(self, name: str) -> str:
        return query(name, self.schema)

    async def fetch(self, connection: asyncpg.Connection, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run a statement of sql/queries, named by its file without the ending, on any connection."""
        with calling(self.schema):
            return await connection.fetch(self.query(name), *args)

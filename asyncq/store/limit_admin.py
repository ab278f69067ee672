"""Reads limits and their partitions, and sets their values, on any connection."""

from typing import Any

import msgspec

from asyncq.domain.limit_info import Given, LimitInfo, LimitValues, PartitionInfo
from asyncq.store.database import Connection
from asyncq.store.schema import Schema

_VALUES = LimitValues.__struct_fields__
_read_values = msgspec.json.Decoder(LimitValues).decode


async def limits(database: Schema, connection: Connection) -> list[LimitInfo]:
    """Read all limits, in the order of their names."""
    return [_limit(row) for row in await database.fetch(connection, "limits")]


async def set_limit(database: Schema, connection: Connection, name: str, given: Given, by: str | None) -> LimitInfo:
    """Set values of a limit or queue; returns it."""
    (row,) = await database.fetch(connection, "set_limit", name, *msgspec.structs.astuple(given), by)
    return _limit(row)


async def unset_limit(database: Schema, connection: Connection, name: str, key: str | None) -> LimitInfo:
    """Unset all values of a limit or queue, or of one key of a limit; returns the limit."""
    (row,) = await database.fetch(connection, "unset_limit", name, key)
    return _limit(row)


async def remove_limit(database: Schema, connection: Connection, name: str) -> None:
    """End the declaration of a limit or queue, and unset all its values."""
    await database.fetch(connection, "remove_limit", name)


async def set_partition(database: Schema, connection: Connection, *arguments: Any) -> None:
    """Set values of one key: limit, key, at_once, rate, per_s, weight, by."""
    await database.fetch(connection, "set_partition", *arguments)


async def partitions(database: Schema, connection: Connection, limit: str, most: int) -> list[PartitionInfo]:
    """Read the keys of a limit, or a queue."""
    return [PartitionInfo(*row) for row in await database.fetch(connection, "partitions", limit, most)]


def _limit(row: Any) -> LimitInfo:
    columns = dict(row)
    values = LimitValues(**{name: columns.pop(name) for name in _VALUES})
    declared, overrides = columns.pop("declared"), columns.pop("overrides")
    columns |= {"tasks": tuple(columns["tasks"]), "by": tuple(columns["by"])}
    return LimitInfo(
        values=values,
        declared=None if declared is None else _read_values(declared),
        overrides={} if overrides is None else msgspec.json.decode(overrides),
        **columns,
    )

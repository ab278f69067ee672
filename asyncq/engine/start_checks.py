"""The checks of a worker before it registers."""

from asyncq.domain.errors import UnsupportedServer
from asyncq.domain.events import LeaseOnly
from asyncq.domain.task import Registry
from asyncq.engine.base.observers import Observers
from asyncq.store.database import Connection, Database
from asyncq.store.migrate import check_version
from asyncq.store.probe import LEASE_ONLY, NO_FATE, check_capabilities


async def check_server_and_schema(
    database: Database, connection: Connection, registry: Registry, observers: Observers
) -> None:
    """Refuse a schema or a server with which this worker cannot work; report features that are limited.

    SchemaError, StoreUnavailable if the server is read only, or UnsupportedServer if it lacks a feature that asyncq,
    or a transactional task of the worker, needs.
    """
    await check_version(connection, database.schema)
    found = await check_capabilities(database, connection)
    if NO_FATE in found.limits and (names := [name for name in registry if registry[name].isolation is not None]):
        raise UnsupportedServer(f"the server cannot run transactional tasks: {', '.join(names)}; {NO_FATE}")
    if LEASE_ONLY in found.limits:
        observers.emit(LeaseOnly(reason=LEASE_ONLY))

"""Tests the features of a server, since some servers use PostgreSQL's protocol and are not PostgreSQL.

A server without a feature on which claims depend is refused. Without another feature asyncq works, and logs one line.
"""

import secrets

import asyncpg
import msgspec

from asyncq.domain.errors import ConfigurationError, StoreUnavailable, UnsupportedServer
from asyncq.store.database import Connection, Database
from asyncq.store.failures import READ_ONLY, calling
from asyncq.store.listen import check_hearing

POLLS = "it passes no notifications on (LISTEN, NOTIFY): workers poll"
LEASE_ONLY = "its session locks do not exclude each other: a killed worker is noticed at the end of its lease"
NO_FATE = "it does not report how a transaction ended (pg_xact_status): no worker with transactional tasks starts"

# A server that lacks a feature refuses its statement. The subquery has no table: to lock one needs a privilege.
_NEEDED = {
    "FOR UPDATE SKIP LOCKED": "select from (select) as nothing for update skip locked",
    "the system column ctid": "select ctid from pg_catalog.pg_class limit 1",
    "the type xid8": "select pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) > '0'::pg_catalog.xid8",
}
_FATE = "select pg_catalog.pg_xact_status('3'::pg_catalog.xid8)"
_LOCK = "select pg_catalog.pg_try_advisory_xact_lock($1::int, $2::int)"
_SESSION_LOCK = "select pg_catalog.pg_try_advisory_lock($1::int, $2::int)"
_UNLOCK = "select pg_catalog.pg_advisory_unlock($1::int, $2::int)"
_IS_READ_ONLY = "select pg_catalog.current_setting('transaction_read_only')::boolean"
_IS_STANDBY = "select pg_catalog.pg_is_in_recovery()"
_REFUSALS = (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError)


class Probed(msgspec.Struct, frozen=True):
    """The result of a probe.

    Attributes:
        is_read_only: Whether the server refuses writes.
        missing: The required features that the server lacks, each as a phrase.
        limits: The optional features that the server lacks, each as a sentence: some of the constants above.
    """

    is_read_only: bool
    missing: tuple[str, ...]
    limits: tuple[str, ...]


async def probe(database: Database, connection: Connection, *, hears: bool = False) -> Probed:
    """Test the features that asyncq needs; changes nothing. The connection is in no transaction.

    With `hears` it tests LISTEN too, unless a pooler shares the sessions.
    """
    with calling(database.schema):
        is_read_only = bool(await connection.fetchval(_IS_READ_ONLY))
        is_standby = bool(await connection.fetchval(_IS_STANDBY))
        missing = [f"{name} ({said})" for name, text in _NEEDED.items() if (said := await _refusal(connection, text))]
        limits = [NO_FATE] if await _refusal(connection, _FATE) else []
    async with database.connected("probe") as other:
        with calling(database.schema):
            if said := await _why_no_lock(connection, other):
                missing.append(f"advisory locks ({said})")
            elif not database.is_pooled and not await _has_session_locks(connection, other):
                limits.append(LEASE_ONLY)
            if hears and not database.is_pooled and not is_standby and not await _hears(other):
                limits.append(POLLS)
    return Probed(is_read_only, tuple(missing), tuple(limits))


async def check_capabilities(database: Database, connection: Connection) -> Probed:
    """Probe; raises UnsupportedServer for a missing required feature, StoreUnavailable if the server is read only."""
    found = await probe(database, connection)
    if found.missing:
        raise UnsupportedServer(f"asyncq needs PostgreSQL; this server lacks {', '.join(found.missing)}")
    if found.is_read_only:
        raise StoreUnavailable(
            "the server is read only, nothing can be written: it is a standby, or default_transaction_read_only is on; "
            "with several hosts in the DSN, add target_session_attrs=read-write",
            outcome="not_sent",
            sqlstate=READ_ONLY,
        )
    if LEASE_ONLY in found.limits:
        database.has_session_locks = False
    return found


async def _refusal(connection: Connection, text: str) -> str:
    """Return the server's error for a statement; empty if the statement succeeds."""
    try:
        await connection.fetch(text)
    except (*_REFUSALS, asyncpg.DataError, asyncpg.InternalServerError) as error:
        return str(error)
    return ""


async def _why_no_lock(connection: Connection, other: Connection) -> str:
    """Return the fault of advisory locks: two transactions hold the same lock, or none gets it; empty if they work."""
    key = _key()
    try:
        async with connection.transaction(), other.transaction():
            if not await connection.fetchval(_LOCK, *key):
                return "a free one was not granted"
            return "two transactions held one at once" if await other.fetchval(_LOCK, *key) else ""
    except _REFUSALS as error:
        return str(error)


async def _has_session_locks(connection: Connection, other: Connection) -> bool:
    key = _key()
    try:
        if not await connection.fetchval(_SESSION_LOCK, *key):
            return False
        try:
            return not await other.fetchval(_SESSION_LOCK, *key)
        finally:
            await connection.fetchval(_UNLOCK, *key)
    except _REFUSALS:
        return False


async def _hears(connection: Connection) -> bool:
    try:
        await check_hearing(connection, connection)
    except (ConfigurationError, UnsupportedServer):
        return False
    return True


def _key() -> tuple[int, int]:
    """Return a key that no other session uses."""
    return secrets.randbits(31), secrets.randbits(31)

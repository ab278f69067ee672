"""Transactions whose snapshot is younger than all that has happened: nothing waits for them that waits for old ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from tests.support.session import Session

IS_YOUNG = """
select age(backend_xmin) <= age($1::text::xid8::xid) - 1
from pg_catalog.pg_stat_activity where pid = pg_backend_pid()
"""


@asynccontextmanager
async def young_snapshot(sql: Session, level: str) -> AsyncIterator[None]:
    """A transaction at a level, with a snapshot that is newer than all earlier transactions; rolled back at the end.

    Others on the same server may have been open when it was taken, which makes it look older: then it is taken again.
    """
    with anyio.fail_after(30):
        while True:
            before = await sql.value("select pg_current_xact_id()::text")
            transaction = sql.connection.transaction(isolation=level)
            await transaction.start()
            if await sql.value(IS_YOUNG, before):
                break
            await transaction.rollback()
            await anyio.sleep(0.01)
    try:
        yield
    finally:
        await transaction.rollback()

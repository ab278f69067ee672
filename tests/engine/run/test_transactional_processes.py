"""Transactional tasks in processes that are killed or stopped in the middle: they run elsewhere, and count once."""

import asyncio
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from asyncq import Client
from asyncq.domain.events import JobCompleted, TransactionsEnded
from tests.crash.counting import counting_worker, create_ledger, sums
from tests.support.effects import IN_TRANSACTION
from tests.support.seen import Seen
from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda how: how.name)
async def test_a_process_that_is_lost_in_the_middle_of_a_job_has_done_nothing(
    client: Client, db: asyncpg.Connection, dsn: str, schema: str, seen: Seen, how: signal.Signals
) -> None:
    """A dead one is rescued after its lease; of a stopped one others end the transaction, and it is refused later."""
    await create_ledger(db, schema)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.crash.counting", dsn, schema, cwd=CHECKOUT, stderr=asyncio.subprocess.DEVNULL
    )
    watcher = await asyncpg.connect(dsn)

    async def waits() -> bool:
        sql = f"select exists (select from pg_stat_activity where {IN_TRANSACTION} and wait_event_type = 'Lock')"
        return await watcher.fetchval(sql, schema)

    try:
        async with db.transaction():
            await db.execute(f"select from {schema}.ledger where account = 0 for update")
            added = await client.add_job("once", {"account": 0})
            await wait_until(waits, description="the job to wait for the row", limit_s=20)
            process.send_signal(how)
        async with counting_worker(dsn, schema, observers=[seen]).start():
            await seen.wait_for(JobCompleted)
    finally:
        if how is signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        await process.wait()
        await watcher.close(timeout=5)

    done = {"once": 1, "stepped": 0, "at_least_once": 0}
    assert ([added.id], done) == (seen.ids(JobCompleted), await sums(db, schema))
    assert (how is signal.SIGSTOP) == bool(seen.of(TransactionsEnded))

"""Once a day each worker reports how much history there is."""

import pytest

from asyncq import Client, task
from asyncq.domain.events import HistorySize
from asyncq.engine.base.observers import Observers
from asyncq.engine.maintenance import history_size
from asyncq.engine.maintenance.history_size import HistorySizes
from asyncq.store.database import Database, ReconnectingConnection
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen

DAY_S = 86_400.0


@task(keep="1 hour")
async def kept() -> None:
    """A job that is kept."""


async def test_a_worker_reports_the_size_of_the_history(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is what people otherwise notice first."""
    monkeypatch.setattr(history_size, "FIRST_WITHIN_S", 0.0)
    await client.add_jobs([kept.job()] * 3)
    await make_worker(kept).run_once()
    async with make_worker(kept).start():
        event = await seen.wait_for(HistorySize)

    assert (3, True, True) == (event.jobs, event.bytes > 8192, 0 < event.oldest_s < 60)


async def test_the_size_is_reported_once_a_day_if_anything_is_kept(
    dsn: str, schema: str, client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """A fleet does not report at one time: the first report comes within the first hour."""
    line = ReconnectingConnection(Database(dsn, schema), "fetch")
    sizes, reported = HistorySizes(line, Observers([seen])), []
    try:
        await sizes.report(0.0)
        await sizes.report(3600.0)  # nothing is kept
        await client.add_job(kept)
        await make_worker(kept).run_once()
        for now in (3600.0 + 0.7 * DAY_S, 3600.0 + 1.3 * DAY_S, 3600.0 + 1.4 * DAY_S, 3600.0 + 2.6 * DAY_S):
            await sizes.report(now)
            reported.append(len(seen.of(HistorySize)))
    finally:
        await line.close()

    assert [0, 1, 1, 2] == reported

"""The stopwatch does not count time in which the event loop was blocked."""

import asyncio
import time

import anyio
import pytest

from asyncq import Client, task
from asyncq.engine.base.stopwatch import TICK_S, Stopwatch
from asyncq.engine.fetch.cursor import FetchCursor
from asyncq.store.claim import Place
from tests.engine.conftest import MakeWorker

BLOCK_S = 0.6


@task
async def block() -> None:
    """Keep everybody waiting."""
    time.sleep(BLOCK_S)  # noqa: ASYNC251 - that is the point


async def test_waiting_time_is_counted() -> None:
    """Ticks come late on a busy machine, so the test counts them instead of the time."""
    with Stopwatch() as watch:
        for _ in range(20):
            await anyio.sleep(TICK_S)

    assert 10 * TICK_S < watch.took_s


@pytest.mark.parametrize("pause_s", [0, TICK_S / 2, 30 * TICK_S])
async def test_the_time_in_which_the_loop_is_blocked_is_not_counted(pause_s: float) -> None:
    """The block may begin at any moment."""
    asyncio.get_running_loop().call_later(pause_s, time.sleep, BLOCK_S)
    with Stopwatch() as watch:
        await anyio.sleep(pause_s + TICK_S)

    assert watch.took_s < BLOCK_S


async def test_a_block_that_fails_leaves_no_timer() -> None:
    """The error is raised."""
    with pytest.raises(ValueError, match="no"), Stopwatch() as watch:
        raise ValueError("no")

    assert watch._timer is not None
    assert watch._timer.cancelled()


@pytest.mark.parametrize("jobs", [1, 3])
async def test_handlers_that_block_the_loop_do_not_make_fetches_look_expensive(
    client: Client, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Otherwise the next fetch from the start would be delayed by nine times that time, and a drain waits for it."""
    costs: list[float] = []
    real = FetchCursor.ended

    def ended(looks: FetchCursor, now: float, after: Place, cost_s: float) -> None:
        costs.append(cost_s)
        real(looks, now, after, cost_s)

    monkeypatch.setattr(FetchCursor, "ended", ended)
    for _ in range(jobs):
        await client.add_job(block)
    await make_worker(block, concurrency=2, poll=60).run_once()

    assert costs
    assert max(costs) < BLOCK_S / 2

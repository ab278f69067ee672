"""`Worker.start()`: a worker for as long as a block lasts, whoever enters and leaves it."""

import asyncio
import threading
from contextlib import suppress

import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted, WorkerStopped
from tests.engine.conftest import MakeWorker
from tests.engine.seen import Seen
from tests.waiting import wait_until


@task
async def nothing() -> None:
    """Nothing."""


async def test_the_block_may_be_left_in_another_asyncio_task(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """So do the fixtures of some test runners: each test that used one would end in an error."""
    block = make_worker(nothing).start()
    loop = asyncio.get_running_loop()
    await loop.create_task(block.__aenter__())
    added = await client.add_job(nothing)
    await seen.wait_for(JobCompleted)
    await loop.create_task(block.__aexit__(None, None, None))

    assert ([added.id], 1) == (seen.ids(JobCompleted), len(seen.of(WorkerStopped)))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("mine")])
async def test_what_the_block_raises_comes_out_as_it_is(
    make_worker: MakeWorker, seen: Seen, error: BaseException
) -> None:
    """A program that exits with a code in it ends with that code."""
    raised: BaseException | None = None
    try:
        async with make_worker(nothing).start():
            raise error
    except BaseException as caught:  # noqa: BLE001 - what a test runner would take for its own
        raised = caught

    assert (error, 1) == (raised, len(seen.of(WorkerStopped)))


@pytest.mark.leaves_something  # the row of a worker that was cancelled as it became known: others remove it
async def test_a_start_that_is_cancelled_leaves_nothing_behind_in_its_process(make_worker: MakeWorker) -> None:
    """At whatever step: a service that gives up starting has no worker in the background."""
    before = asyncio.all_tasks()
    for steps in range(0, 60, 3):
        entering = asyncio.get_running_loop().create_task(make_worker(nothing).start().__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        entering.cancel()
        with suppress(asyncio.CancelledError):
            await entering
        assert entering.cancelled()

    await wait_until(lambda: asyncio.all_tasks() == before, description="the last task to end")
    assert "asyncq heartbeat" not in [thread.name for thread in threading.enumerate()]

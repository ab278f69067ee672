"""If very many jobs end well, their ends are gathered before they are written, and nobody waits for that."""

import asyncio

import pytest

from asyncq import Client, task
from asyncq.domain.events import JobCompleted, JobDiscarded, JobStarted
from asyncq.engine.settle import completer
from tests.engine.conftest import MakeWorker
from tests.support.seen import Seen
from tests.support.waiting import wait_until
from tests.support.write_gate import Gate

FAR_S = 3600.0


@task
async def nothing() -> None:
    """The least job."""


@task
async def instant() -> None:
    """Lets the writer run before the next one ends."""
    await asyncio.sleep(0.001)


@task(max_attempts=1)
async def broken() -> None:
    """Fails."""
    raise ValueError


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any pace, ends are gathered for an hour, or until there are a thousand."""
    monkeypatch.setattr(completer, "MANY", 0)
    monkeypatch.setattr(completer, "GATHER_S", FAR_S)
    monkeypatch.setattr(completer, "ENOUGH", 1_000)


async def run_some(client: Client, seen: Seen, before: int = 0) -> None:
    """Five jobs end, after so many others; they wait to be written."""
    await client.add_jobs([instant.job() for _ in range(5)])
    await seen.wait_for(JobStarted, before + 5)


async def batches_of_five(client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate) -> list[int]:
    """The batches in which the ends of five jobs are written."""
    gate.opened.set()
    async with make_worker(instant, concurrency=1).start():
        await run_some(client, seen)
        await seen.wait_for(JobCompleted, 5)
    return gate.batches


@pytest.mark.usefixtures("patient")
async def test_enough_ends_are_written_together(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one each would cost what the batch costs, the worker and the server."""
    monkeypatch.setattr(completer, "ENOUGH", 5)

    assert [5] == await batches_of_five(client, make_worker, seen, gate)


async def test_a_few_ends_are_written_once_they_have_waited_long_enough(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the last ones of a burst, and no other may follow."""
    monkeypatch.setattr(completer, "MANY", 0)
    async with make_worker(instant).start():
        await run_some(client, seen)
        await seen.wait_for(JobCompleted, 5)

    assert 5 == len(seen.of(JobCompleted))


async def test_at_a_slow_pace_an_end_is_written_at_once(
    client: Client, make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting would bring nothing, and after a crash the job would run again."""
    monkeypatch.setattr(completer, "GATHER_S", FAR_S)
    async with make_worker(nothing).start():
        await client.add_job(nothing)
        await seen.wait_for(JobCompleted)

    assert 1 == len(seen.of(JobCompleted))


@pytest.mark.usefixtures("patient")
async def test_the_end_of_a_queues_job_does_not_wait_for_others(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """The next job of its queue waits for it. Ends that are gathered already are written with it."""
    async with make_worker(instant, nothing, concurrency=1).start():
        await run_some(client, seen)
        await client.add_job(nothing, queue="letters")
        await seen.wait_for(JobStarted, 6)
        before = len(seen.of(JobCompleted))
        await seen.wait_for(JobCompleted, 6)

    assert 0 == before


@pytest.mark.usefixtures("patient")
async def test_a_queues_job_that_ended_first_does_not_wait_for_others(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """No other end follows that could wake the writer."""
    async with make_worker(nothing).start():
        await client.add_job(nothing, queue="letters")
        await seen.wait_for(JobCompleted)
        await client.add_job(nothing, queue="letters")
        await seen.wait_for(JobCompleted, 2)

    assert 2 == len(seen.of(JobCompleted))


@pytest.mark.usefixtures("patient")
async def test_a_failure_waits_for_no_others(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """Its retry may be due soon."""
    async with make_worker(instant, broken, concurrency=1).start():
        await run_some(client, seen)
        await client.add_job(broken)
        await seen.wait_for(JobDiscarded)
        await seen.wait_for(JobCompleted, 5)

    assert 1 == len(seen.of(JobDiscarded))


@pytest.mark.usefixtures("patient")
async def test_a_stop_writes_the_gathered_ends(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """A deploy would otherwise wait, or run those jobs again."""
    async with make_worker(instant).start():
        await run_some(client, seen)
        before = len(seen.of(JobCompleted))

    assert (0, 5) == (before, len(seen.of(JobCompleted)))


@pytest.mark.usefixtures("patient")
async def test_results_that_arrive_during_a_write_at_the_stop_do_not_wait_for_others(
    client: Client, make_worker: MakeWorker, seen: Seen, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the stop no further run ends that could wake the writer."""
    closed = asyncio.Event()
    close = completer.Completer.close

    def close_and_tell(self: completer.Completer) -> None:
        close(self)
        closed.set()

    monkeypatch.setattr(completer.Completer, "close", close_and_tell)
    async with make_worker(instant, broken, concurrency=1).start() as worker, asyncio.TaskGroup() as group:
        await client.add_job(broken)
        await wait_until(lambda: bool(gate.batches), description="the first write to begin")
        await run_some(client, seen, before=1)
        group.create_task(worker.stop())
        await closed.wait()
        gate.opened.set()

    assert [1, 5] == gate.batches


@pytest.mark.usefixtures("patient")
async def test_a_cancelled_worker_writes_the_gathered_ends(client: Client, make_worker: MakeWorker, seen: Seen) -> None:
    """The jobs ended well before, so another run would be the second one."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(make_worker(instant).run())
        await run_some(client, seen)
        before = len(seen.of(JobCompleted))
        running.cancel()

    assert (0, 5) == (before, len(seen.of(JobCompleted)))

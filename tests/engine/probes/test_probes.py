"""`Worker(http=...)`: probes and metrics are answered by a thread of their own, whatever happens in the event loop."""

import asyncio
import multiprocessing
import os
import socket
import threading

import anyio
import asyncpg
import pytest
from anyio.to_thread import run_sync

from asyncq import AsyncqError, Client, ConfigurationError, Discard, Snooze, Worker, task
from asyncq.domain.events import (
    HeartbeatFailed,
    JobCompleted,
    JobDiscarded,
    JobSnoozed,
    JobStarted,
    LeaseInDoubt,
    LoopBlocked,
    ProbesStarted,
    WorkerLost,
    WorkerStarted,
    WorkerStopping,
)
from asyncq.engine.probes.server import MOST_OPEN
from tests.engine.conftest import MakeWorker
from tests.engine.liveness.test_loop_watchdog import Blocker, blocker, elsewhere
from tests.support.seen import Seen
from tests.support.waiting import wait_until
from tests.support.web import Page, fetch, fetch_now

__all__ = ["blocker"]

HERE = "127.0.0.1:0"


@task
async def greet(name: str) -> None:
    """A job that ends well."""


@task
async def refuse() -> None:
    raise Discard("no")


@task
async def later() -> None:
    raise Snooze(3600)


async def address_of(seen: Seen) -> str:
    """The address of the probes of the only worker, once it is registered."""
    address = (await seen.wait_for(ProbesStarted)).address
    await seen.wait_for(WorkerStarted)
    return address


async def test_a_running_worker_is_healthy_ready_and_measured(
    client: Client, make_worker: MakeWorker, seen: Seen, schema: str
) -> None:
    """The numbers are those of its jobs, and the text is what Prometheus reads."""
    async with make_worker(greet, refuse, later, http=HERE).start():
        at = await address_of(seen)
        await client.add_jobs([greet.job(name="a"), greet.job(name="b"), refuse.job(), later.job()])
        await seen.wait_for(JobCompleted, 2)
        await seen.wait_for(JobDiscarded)
        await seen.wait_for(JobSnoozed)
        pages = [await fetch(f"{at}/{name}") for name in ("healthz", "readyz", "metrics")]

    assert [(200, "ok\n"), (200, "ok\n")] == [(page.status, page.text) for page in pages[:2]]
    metrics = pages[2]
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (metrics.status, metrics.headers["content-type"])
    assert [2, 1, 1] == [
        metrics.value("asyncq_jobs_total", task=name, outcome=outcome)
        for name, outcome in (("greet", "completed"), ("refuse", "discarded"), ("later", "snoozed"))
    ]
    assert (2, 2) == (
        metrics.value("asyncq_job_duration_seconds_count", task="greet"),
        metrics.value("asyncq_job_duration_seconds_bucket", task="greet", le="+Inf"),
    )
    assert (10, 0, 0, 1) == tuple(
        metrics.value(f"asyncq_{name}")
        for name in ("worker_slots", "worker_running", "worker_stuck", "listen_connected")
    )
    (info,) = [labels for name, labels in metrics.samples if name == "asyncq_info"]
    assert schema == dict(info)["schema"]


async def test_a_job_that_was_due_before_its_start_has_waited(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """Waiting is measured by the server's clock, from the time at which the job was due."""
    await client.add_job(greet.job(name="late"))
    await db.execute(f"update {schema}._jobs set run_at = run_at - interval '100 s'")
    async with make_worker(greet, http=HERE).start():
        at = await address_of(seen)
        await seen.wait_for(JobCompleted)
        page = await fetch(f"{at}/metrics")

    counted = [
        page.value("asyncq_job_wait_seconds_bucket", task="greet", le=bound) for bound in ("60.0", "300.0", "+Inf")
    ]
    assert [0, 1, 1] == counted
    assert 100 <= (page.value("asyncq_job_wait_seconds_sum", task="greet") or 0) < 160


async def test_a_blocked_loop_is_unhealthy_and_names_its_task_until_it_answers(
    client: Client, make_worker: MakeWorker, seen: Seen, blocker: Blocker
) -> None:
    """A supervisor restarts such a worker; how long a job takes says nothing."""
    worker = make_worker(blocker.task, http=HERE, unhealthy_after=0.2, blocked_after=0.1)
    async with elsewhere(worker):
        at = await address_of(seen)
        well = await fetch(f"{at}/healthz")
        added = await client.add_job("block")
        ill: list[Page] = [well]

        async def is_ill() -> bool:
            ill.append(await fetch(f"{at}/healthz"))
            return ill[-1].status == 503

        await wait_until(is_ill, description="an unhealthy worker")
        others = [(await fetch(f"{at}/{name}")).status for name in ("readyz", "metrics")]
        blocker.leave.set()

        async def is_well() -> bool:
            return (await fetch(f"{at}/healthz")).status == 200

        await wait_until(is_well, description="a healthy worker")
        await seen.wait_for(LoopBlocked)
        blocked_s = (await fetch(f"{at}/metrics")).value("asyncq_loop_blocked_seconds_total")

    assert (200, [200, 200]) == (well.status, others)
    assert ill[-1].text.startswith("the event loop has not answered for ")
    assert ill[-1].text.endswith(f" s, blocked by job {added.id} (block)\n")
    assert blocked_s == pytest.approx(sum(event.blocked_s for event in seen.of(LoopBlocked)))


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd"])
async def test_any_other_page_is_missing(make_worker: MakeWorker, seen: Seen, path: str) -> None:
    """There are three."""
    async with make_worker(http=HERE).start():
        assert 404 == (await fetch(f"{await address_of(seen)}{path}")).status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_only_get_is_answered(make_worker: MakeWorker, seen: Seen, method: str) -> None:
    """Nothing here changes anything."""
    async with make_worker(http=HERE).start():
        page = await fetch(f"{await address_of(seen)}/healthz", method)

    assert (405, "GET") == (page.status, page.headers["allow"])


async def test_a_scraper_gets_open_metrics_if_it_accepts_them(make_worker: MakeWorker, seen: Seen) -> None:
    """Prometheus asks for them."""
    async with make_worker(http=HERE).start():
        page = await fetch(f"{await address_of(seen)}/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert (True, "# EOF\n") == (
        page.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0"),
        page.text[-6:],
    )


async def test_a_worker_is_ready_only_from_its_registration_to_its_stop(
    client: Client, make_worker: MakeWorker, seen: Seen
) -> None:
    """Before and after, a rolling update must wait for another one."""
    begins, may_begin, goes = asyncio.Event(), asyncio.Event(), asyncio.Event()
    said: list[Page] = []

    async def lifespan() -> None:
        begins.set()
        await may_begin.wait()

    class Lifespan:
        async def __aenter__(self) -> None:
            await lifespan()

        async def __aexit__(self, *_: object) -> None: ...

    @task
    async def wait() -> None:
        await goes.wait()

    worker = make_worker(wait, http=HERE, lifespan=lambda _: Lifespan())

    async def probe() -> None:
        at = (await seen.wait_for(ProbesStarted)).address
        await begins.wait()
        said.append(await fetch(f"{at}/readyz"))
        may_begin.set()
        await seen.wait_for(WorkerStarted)
        said.append(await fetch(f"{at}/readyz"))
        await client.add_job(wait)
        await seen.wait_for(JobStarted)
        worker._stop.ask("the test")  # type: ignore[union-attr]
        await seen.wait_for(WorkerStopping)
        said.extend([await fetch(f"{at}/readyz"), await fetch(f"{at}/healthz")])
        goes.set()

    async with anyio.create_task_group() as group:
        group.start_soon(probe)
        await worker.run()

    assert [
        (503, "the worker has not begun\n"),
        (200, "ok\n"),
        (503, "the worker stops\n"),
        (200, "ok\n"),
    ] == [(page.status, page.text) for page in said]


def _open(at: str, number: int) -> list[socket.socket]:
    """Connections that send no request."""
    host, port = at.removeprefix("http://").split(":")
    return [socket.create_connection((host, int(port))) for _ in range(number)]


async def test_500_open_connections_and_scrapes_in_a_loop_delay_no_beat(
    client: Client, make_worker: MakeWorker, seen: Seen, db: asyncpg.Connection, schema: str
) -> None:
    """The heartbeat has a thread of its own, and connections that send nothing keep no probe out."""
    stop, scrapes, failed = threading.Event(), [0], list[str]()

    def scrape(at: str) -> None:
        while not stop.is_set():
            page = fetch_now(f"{at}/metrics")
            scrapes[0] += 1
            if page.status != 200:
                failed.append(page.text)

    async def last_seen() -> object:
        return await db.fetchval(f"select last_seen from {schema}._workers")

    async with make_worker(greet, http=HERE, lease=1).start():
        at = await address_of(seen)
        idle = await run_sync(_open, at, 500)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(run_sync, scrape, at)
            beats = {await last_seen()}

            async def has_beaten() -> bool:
                beats.add(await last_seen())
                return len(beats) > 6 and scrapes[0] > 100

            await wait_until(has_beaten, description="six beats and a hundred scrapes")
            threads = [each for each in threading.enumerate() if each.name == "asyncq probe connection"]
            stop.set()
        for each in idle:
            each.close()
        await client.add_job(greet.job(name="a"))
        await seen.wait_for(JobCompleted)

    assert ([], []) == (failed, [e for e in seen.events if isinstance(e, HeartbeatFailed | LeaseInDoubt | WorkerLost)])
    assert len(threads) <= 2 * MOST_OPEN


async def test_no_thread_and_no_port_is_left(make_worker: MakeWorker, seen: Seen) -> None:
    """Also if a client never sends its request."""
    before = set(threading.enumerate())
    async with make_worker(http=HERE).start():
        at = await address_of(seen)
        idle = await run_sync(_open, at, 3)
        await wait_until(
            lambda: sum(each.name == "asyncq probe connection" for each in threading.enumerate()) == 3,
            description="three connections",
        )
    left = {each for each in threading.enumerate() if each.name.startswith("asyncq probe")} - before
    for each in idle:
        each.close()
    again = Seen()
    async with make_worker(http=at.removeprefix("http://"), observers=[again]).start():
        page = await fetch(f"{await address_of(again)}/healthz")

    assert (set(), 200) == (left, page.status)


async def test_a_port_that_is_taken_is_an_error_with_its_address(make_worker: MakeWorker) -> None:
    """A worker without its probes would be restarted for ever."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AsyncqError, match=f"^http: {at} cannot be used: Address already in use$"):
            await make_worker(http=at).run_once()


@pytest.mark.parametrize("given", ["8081", "localhost", ":8081", "127.0.0.1:99999", "http://x:1", "::1:8081", 8081, ""])
async def test_an_address_that_is_none_is_refused(given: object, make_worker: MakeWorker) -> None:
    """It is refused where it is written."""
    with pytest.raises(ConfigurationError, match=r"^http must be the text HOST:PORT"):
        make_worker(http=given)


async def test_ipv6_is_possible(make_worker: MakeWorker, seen: Seen) -> None:
    """Clusters may have no other addresses."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with make_worker(http="[::1]:0").start():
        assert 200 == (await fetch(f"{await address_of(seen)}/healthz")).status


def _is_closed(port: int, answer: "multiprocessing.Queue[bool]") -> None:
    """In a forked child: whether it keeps no socket that listens at this port."""
    kept = False
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as each:
                kept = kept or each.getsockname()[1:2] == (port,)
        except OSError:
            pass
    answer.put(not kept)


async def test_a_child_that_a_handler_forks_keeps_no_port(make_worker: MakeWorker, seen: Seen) -> None:
    """It may live longer than its worker, whose successor needs the port."""
    fork = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[bool] = fork.Queue()  # type: ignore[assignment]
    async with make_worker(http=HERE).start():
        port = int((await address_of(seen)).rpartition(":")[2])
        child = fork.Process(target=_is_closed, args=(port, answer))
        child.start()
        is_closed = await run_sync(answer.get)
        await run_sync(child.join)

    assert is_closed


@pytest.mark.parametrize(("http", "is_wanted"), [(None, False), (HERE, True)])
async def test_only_a_worker_with_http_builds_the_events_that_are_counted(
    dsn: str, schema: str, http: str | None, *, is_wanted: bool
) -> None:
    """Events of single jobs cost time at ten thousand jobs a second."""
    worker = Worker(dsn, [greet], schema=schema, http=http)

    assert [is_wanted, is_wanted] == [worker._observers.wanted(kind) for kind in (JobStarted, JobCompleted)]

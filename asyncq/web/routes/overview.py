"""The overview, as one answer and as a stream; the user's rights; the probes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from asyncq.domain.administration import Counts, WorkerInfo
from asyncq.web.answers import timed
from asyncq.web.guard import access
from asyncq.web.site import Site, site_of


async def _me(request: Request) -> Any:
    site = site_of(request)
    rights = await site.open()
    return {
        "name": access(request.scope).name,
        "can": await site.allowed(request),
        "hides_payloads": site.redaction.hides,
        "server": rights.server,
        "schema_version": rights.schema_version,
        "is_standby": rights.is_standby,
    }


async def look(site: Site) -> dict[str, Any]:
    """What the overview shows: counts of jobs, workers, what is paused, and what is wrong."""
    await site.open()
    admin = site.client.admin
    counts = await timed(admin.counts())
    workers = await timed(admin.list_workers())
    live = [worker for worker in workers if worker.state == "live"]
    return {
        "at": datetime.now(UTC),
        "counts": counts,
        "oldest_due_s": await timed(admin.oldest_due()),
        "warnings": list(_warnings(counts, workers)),
        "workers": len(live),
        "slots": sum(worker.concurrency or 0 for worker in live),
        "busy": sum(worker.running for worker in live),
        "stuck": sum(len(worker.stuck) for worker in live),
        "paused": await timed(admin.paused()),
    }


def _warnings(counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    """What an operator should look at first; `asyncq doctor` finds more."""
    states = [worker.state for worker in workers]
    if "live" not in states and counts.available:
        yield "Jobs are due, and no worker is alive."
    if silent := sum(state in ("doubted", "dead") for state in states):
        yield f"{silent} {'worker gives' if silent == 1 else 'workers give'} no sign of life: the jobs are returned."
    if stuck := sum(len(worker.stuck) for worker in workers):
        yield f"{stuck} {'handler does' if stuck == 1 else 'handlers do'} not end although cancelled."


async def _overview(request: Request) -> Any:
    site = site_of(request)
    return await site.live.look("overview", lambda: look(site))


async def _events(request: Request) -> StreamingResponse:
    site = site_of(request)
    await site.open()
    stream = site.live.stream("overview", lambda: look(site))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _checkup(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    checkup = await site.live.look("checkup", lambda: timed(site.client.admin.checkup()), 30.0)
    return {"findings": checkup.findings}


async def _healthz(_: Request) -> Any:
    return {"ok": True}


async def _readyz(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    await timed(site.client.admin.now())
    return {"ok": True}


ROUTES = (
    ("GET", "api/me", _me),
    ("GET", "api/overview", _overview),
    ("GET", "api/events", _events),
    ("GET", "api/checkup", _checkup),
    ("GET", "healthz", _healthz),
    ("GET", "readyz", _readyz),
)

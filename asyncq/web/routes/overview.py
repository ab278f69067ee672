"""The overview, as one answer and as a stream; the user's rights; the probes."""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

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
    """What the overview shows: counts of jobs, workers and what is paused."""
    await site.open()
    admin = site.client.admin
    counts = await timed(admin.counts())
    workers = await timed(admin.list_workers())
    live = [worker for worker in workers if worker.state == "live"]
    return {
        "at": datetime.now(UTC),
        "counts": counts,
        "workers": len(live),
        "slots": sum(worker.concurrency or 0 for worker in live),
        "busy": sum(worker.running for worker in live),
        "stuck": sum(len(worker.stuck) for worker in live),
        "paused": await timed(admin.paused()),
    }


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

"""Lists of jobs: by a filter, the failed ones by their errors, the running ones; tasks and queues."""

from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request

from asyncq.domain.finding import RunningJob
from asyncq.web.answers import Refused, timed
from asyncq.web.filters import filter_of
from asyncq.web.routes.job import shown
from asyncq.web.site import site_of

PAGE = 50
LOOK = 10_000
FOR_S = 5.0


async def _jobs(request: Request) -> Any:
    """A page of jobs: the parameters are those of a filter, and `start`, `order`, `most`, `look`."""
    site = site_of(request)
    await site.open()
    given = dict(request.query_params)
    start, order = given.pop("start", None), given.pop("order", "newest")
    most, look = _number(given, "most", PAGE), _number(given, "look", LOOK)
    which = filter_of(given, site.redaction)
    page = await timed(
        site.client.admin.find_jobs(
            which,
            newest=order != "oldest",
            limit=most,
            start=None if start is None else _whole("start", start),
            look=look,
        )
    )
    jobs = [shown(job, site.redaction) for job in page.jobs]
    return {"jobs": jobs, "next": None if page.next is None else str(page.next), "looked": look}


class Ended(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a page of ended jobs."""

    state: str | None = None
    task: str | None = None
    since: datetime | None = None
    start: int | None = None
    most: int = PAGE


async def _history(request: Request) -> Any:
    """A page of ended jobs, the newest first; `start` is the last id of the page before."""
    site = site_of(request)
    await site.open()
    given = {name: text for name, text in request.query_params.items() if text}
    try:
        wanted = msgspec.convert(given, Ended, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(422, f"the filter is not valid: {error}") from error
    jobs = await timed(
        site.client.admin.list_ended_jobs(
            state=wanted.state, task=wanted.task, since=wanted.since, limit=wanted.most, before=wanted.start
        )
    )
    following = str(jobs[-1].id) if len(jobs) == wanted.most else None
    return {"jobs": [{**msgspec.structs.asdict(job), "id": str(job.id)} for job in jobs], "next": following}


def _number(given: dict[str, str], name: str, default: int) -> int:
    return _whole(name, given.pop(name)) if given.get(name) else default


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refused(422, f"{name} must be a whole number, got {text[:40]!r}") from None


async def _failures(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    groups = await site.live.look("failures", lambda: timed(site.client.admin.failures()), FOR_S)
    return {"failures": [{**msgspec.structs.asdict(group), "job_id": str(group.job_id)} for group in groups]}


async def _running(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    running = await site.live.look("running", lambda: timed(site.client.admin.running()))
    return {"running": [_run(run) for run in running]}


def _run(run: RunningJob) -> dict[str, Any]:
    return {**msgspec.structs.asdict(run), "id": str(run.id), "worker_id": str(run.worker_id)}


async def _tasks(request: Request) -> Any:
    """Each task with its depths, and the live workers that know it."""
    site = site_of(request)
    await site.open()
    admin = site.client.admin
    depths = await site.live.look("depths", lambda: timed(admin.depths_by()), FOR_S)
    workers = await site.live.look("workers", lambda: timed(admin.list_workers()))
    known: dict[str, int] = {}
    for worker in workers:
        if worker.state == "live":
            for name in worker.tasks:
                known[name] = known.get(name, 0) + 1
    found = {depth.task: msgspec.structs.asdict(depth) for depth in depths if depth.task is not None}
    for name in known:
        found.setdefault(name, {"task": name, "due": 0, "waiting": 0, "running": 0, "failed": 0, "is_exact": True})
    return {"tasks": [{**row, "workers": known.get(name, 0)} for name, row in sorted(found.items())]}


async def _queues(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    depths = await site.live.look("depths", lambda: timed(site.client.admin.depths_by()), FOR_S)
    return {"queues": [depth for depth in depths if depth.queue is not None]}


async def _backlog(request: Request) -> Any:
    """One number for autoscalers."""
    site = site_of(request)
    await site.open()
    return {"jobs": await site.live.look("backlog", lambda: timed(site.client.admin.backlog()))}


ROUTES = (
    ("GET", "api/jobs", _jobs),
    ("GET", "api/history", _history),
    ("GET", "api/failures", _failures),
    ("GET", "api/running", _running),
    ("GET", "api/tasks", _tasks),
    ("GET", "api/queues", _queues),
    ("GET", "api/backlog", _backlog),
)

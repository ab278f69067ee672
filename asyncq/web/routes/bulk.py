"""Changes of all jobs that match a filter: preview, begin, look, stop."""

from datetime import datetime
from typing import Any

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from asyncq.domain.finding import ChangeAction, ChangedJobs, JobFilter
from asyncq.web.access import Action
from asyncq.web.answers import Refused, body_of, document, timed
from asyncq.web.filters import filter_of
from asyncq.web.guard import access
from asyncq.web.site import Site, site_of

RIGHTS: dict[ChangeAction, Action] = {
    "cancel": "cancel",
    "complete": "change",
    "discard": "change",
    "remove": "remove",
    "reschedule": "change",
    "retry": "change",
}
EVERYTHING = "everything"


class Preview(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a preview."""

    filter: dict[str, Any]


class Begin(msgspec.Struct, forbid_unknown_fields=True):
    """The body that begins an operation: what was previewed, and the greatest id of then."""

    action: ChangeAction
    filter: dict[str, Any]
    up_to: str
    total: int = 0
    word: str = ""
    error: str | None = None
    run_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None


async def _preview(request: Request) -> Any:
    """How many jobs match, up to 10,001, and the greatest id: jobs that are added later are not changed."""
    site = site_of(request)
    await site.check(request, *RIGHTS.values())
    which = filter_of(body_of(await request.body(), Preview).filter, site.redaction)
    matching = await timed(site.client.admin.count_matching(which))
    return {"jobs": matching.jobs, "states": matching.states, "up_to": str(matching.up_to)}


async def _begin(request: Request) -> Response:
    """Begin an operation. It goes on after the answer, for as long as this process lives."""
    site = site_of(request)
    await site.check(request, *RIGHTS.values())
    wish = body_of(await request.body(), Begin)
    await site.check(request, RIGHTS[wish.action])
    which = filter_of(wish.filter, site.redaction)
    if not which.given and wish.word != EVERYTHING:
        raise Refused(422, f"no filter: type {EVERYTHING} to change all jobs")
    if not wish.up_to.lstrip("-").isdigit():
        raise Refused(422, "up_to must be the one of a preview")
    up_to = int(wish.up_to)

    async def step(start: int | None) -> ChangedJobs:
        return await _step(site, which, wish, up_to, start)

    operation = site.bulk.begin(wish.action, which.given, access(request.scope).name, wish.total)
    site.note(request, f"{wish.action} all that match", filter=sorted(which.given), up_to=up_to)
    return document(operation, background=BackgroundTask(site.bulk.run, operation, step))


async def _step(site: Site, which: JobFilter, wish: Begin, up_to: int, start: int | None) -> ChangedJobs:
    return await site.client.admin.change_matching(
        which,
        wish.action,
        up_to,
        start=start,
        error=wish.error,
        run_at=wish.run_at,
        priority=wish.priority,
        max_attempts=wish.max_attempts,
    )


async def _all(request: Request) -> Any:
    return {"operations": site_of(request).bulk.all()}


async def _one(request: Request) -> Any:
    return _known(site_of(request).bulk.get(request.path_params["id"]))


async def _stop(request: Request) -> Any:
    site = site_of(request)
    await site.check(request, *RIGHTS.values())
    operation = _known(site.bulk.get(request.path_params["id"]))
    await site.check(request, RIGHTS[operation.action])
    site.note(request, "stop an operation", id=operation.id)
    return _known(site.bulk.stop(operation.id))


def _known(operation: Any) -> Any:
    if operation is None:
        raise Refused(404, "there is no such operation: it ended with its process, or many have begun since")
    return operation


ROUTES = (
    ("POST", "api/bulk/preview", _preview),
    ("POST", "api/bulk", _begin),
    ("GET", "api/bulk", _all),
    ("GET", "api/bulk/{id}", _one),
    ("DELETE", "api/bulk/{id}", _stop),
)

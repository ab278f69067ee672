"""One job with its reasons and its failed attempts; changes of jobs by their ids; adds."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request

from asyncq.admin import Admin
from asyncq.domain.administration import Explanation
from asyncq.domain.attempt import Attempt
from asyncq.domain.errors import JobNotFound
from asyncq.domain.job import Job
from asyncq.web.access import Action
from asyncq.web.answers import Refused, body_of, timed
from asyncq.web.redaction import Redaction
from asyncq.web.site import site_of

MOST = 1000


def shown(job: Job, redaction: Redaction) -> dict[str, Any]:
    """A job as it may be shown; its payload and result are texts of JSON."""
    fields = msgspec.structs.asdict(job)
    fields["payload"] = redaction.text(job.payload)
    fields["result"] = redaction.text(job.result)
    fields["meta"] = None if job.meta is None else redaction.value(job.meta)
    fields["id"] = str(job.id)
    return fields


async def _job(request: Request) -> Any:
    site, job_id = site_of(request), id_of(request.path_params["id"])
    await site.open()
    job = await timed(_found(site.client.get_job(job_id)))
    explanation: Explanation | None = await timed(_found(site.client.admin.explain(job_id)))
    errors: tuple[Attempt, ...] = job.errors if job else await timed(site.client.admin.errors(job_id))
    if job is None and not errors:
        raise JobNotFound(job_id)
    return {
        "id": str(job_id),
        "job": None if job is None else shown(job, site.redaction),
        "errors": errors,
        "reasons": [] if explanation is None else _reasons(explanation),
    }


def _reasons(explanation: Explanation) -> list[dict[str, str]]:
    return [{"reason": reason.reason, "detail": reason.detail} for reason in explanation.reasons]


async def _found(call: Awaitable[Any]) -> Any:
    """The answer of a call; None if there is no such job."""
    try:
        return await call
    except JobNotFound:
        return None


def id_of(text: str) -> int:
    """Read the id of a job; ids are texts in JSON, since JavaScript has no integers of 64 bits."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise Refused(404, f"no job has the id {text[:40]!r}")
    return int(text)


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change: the ids of jobs, and the arguments of `fail` and of `reschedule`."""

    ids: list[str]
    error: str | None = None
    run_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None


class NewJob(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an add."""

    task: str
    payload: Any = None
    options: dict[str, Any] = {}


def _cancel(admin: Admin, ids: list[int], _: Chosen) -> Awaitable[Any]:
    return admin.cancel_jobs(ids)


def _complete(admin: Admin, ids: list[int], _: Chosen) -> Awaitable[Any]:
    return admin.complete_jobs(ids)


def _fail(admin: Admin, ids: list[int], chosen: Chosen) -> Awaitable[Any]:
    return admin.discard_jobs(ids, chosen.error)


def _remove(admin: Admin, ids: list[int], _: Chosen) -> Awaitable[Any]:
    return admin.remove_ended_jobs(ids)


def _reschedule(admin: Admin, ids: list[int], chosen: Chosen) -> Awaitable[Any]:
    return admin.reschedule_jobs(ids, run_at=chosen.run_at, priority=chosen.priority, max_attempts=chosen.max_attempts)


def _retry(admin: Admin, ids: list[int], _: Chosen) -> Awaitable[Any]:
    return admin.retry_jobs(ids)


CHANGES: dict[str, tuple[Action, Callable[[Admin, list[int], Chosen], Awaitable[Any]]]] = {
    "cancel": ("cancel", _cancel),
    "complete": ("change", _complete),
    "fail": ("change", _fail),
    "remove": ("remove", _remove),
    "reschedule": ("change", _reschedule),
    "retry": ("change", _retry),
}


async def _change(request: Request) -> Any:
    """Change jobs by their ids; those that the action does not apply to are missing in the answer."""
    name = request.path_params["action"]
    if name not in CHANGES:
        raise Refused(404, f"no action is called {name[:40]!r}: there are {', '.join(CHANGES)}")
    action, change = CHANGES[name]
    site = site_of(request)
    await site.check(request, action)
    chosen = body_of(await request.body(), Chosen)
    if len(chosen.ids) > MOST:
        raise Refused(422, f"at most {MOST:,} jobs are changed by one request")
    changed = await timed(change(site.client.admin, [id_of(text) for text in chosen.ids], chosen))
    ids = [str(job.id if isinstance(job, Job) else job) for job in changed]
    site.note(request, f"{name} jobs", ids=",".join(ids), count=len(ids))
    return {"changed": ids}


async def _add(request: Request) -> Any:
    site = site_of(request)
    await site.check(request, "add")
    new = body_of(await request.body(), NewJob)
    if isinstance(moment := new.options.get("run_at"), str):
        new.options["run_at"] = body_of(msgspec.json.encode(moment), datetime)
    options: Any = new.options
    handle = await timed(site.client.add_job(new.task, new.payload, **options))
    site.note(request, "add a job", id=handle.id, task=new.task)
    return {"id": str(handle.id)}


ROUTES = (
    ("POST", "api/jobs/add", _add),
    ("POST", "api/jobs/{action}", _change),
    ("GET", "api/jobs/{id}", _job),
)

"""Workers: read them, and return the claims of one that is gone."""

from typing import Any

import msgspec
from starlette.requests import Request

from asyncq.domain.administration import WorkerInfo
from asyncq.web.answers import Refused, timed
from asyncq.web.site import site_of


async def _workers(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    workers = await site.live.look("workers", lambda: timed(site.client.admin.list_workers()))
    return {"workers": [_shown(worker) for worker in workers]}


def _shown(worker: WorkerInfo) -> dict[str, Any]:
    return {**msgspec.structs.asdict(worker), "id": str(worker.id), "stuck": [str(job) for job in worker.stuck]}


async def _unlock(request: Request) -> Any:
    """Return the claims of a worker; refuses one that is live, whose jobs would run twice."""
    site, worker_id = site_of(request), request.path_params["id"]
    await site.check(request, "unlock")
    found = {str(worker.id): worker for worker in await timed(site.client.admin.list_workers())}
    if worker_id not in found:
        raise Refused(404, f"no worker has the id {worker_id[:40]!r}")
    if found[worker_id].state == "live":
        raise Refused(409, f"worker {worker_id} is live: stop it instead")
    jobs = await timed(site.client.admin.force_unlock_workers([int(worker_id)]))
    site.note(request, "unlock a worker", worker=worker_id, jobs=len(jobs))
    return {"changed": [str(job.id) for job in jobs]}


ROUTES = (
    ("GET", "api/workers", _workers),
    ("POST", "api/workers/{id}/unlock", _unlock),
)

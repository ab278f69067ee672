"""Pauses and limits: read, pause, resume, and set values by hand."""

from typing import Any

import msgspec
from starlette.requests import Request

from asyncq.domain.limit import Rate
from asyncq.domain.limit_info import phrase
from asyncq.web.answers import Refused, body_of, timed
from asyncq.web.guard import access
from asyncq.web.site import Site, site_of


class Target(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a pause: one name, a limit with a key, or none for everything."""

    task: str | None = None
    queue: str | None = None
    limit: str | None = None
    key: str | None = None
    reason: str | None = None


class PerTime(msgspec.Struct, forbid_unknown_fields=True):
    """A rate in a body."""

    count: int
    per_s: float


class Values(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change of a limit, or with `key` of one key: a member that is missing stays, null is no limit."""

    key: str | None = None
    concurrency: int | None | msgspec.UnsetType = msgspec.UNSET
    rate: PerTime | None | msgspec.UnsetType = msgspec.UNSET
    total: int | None | msgspec.UnsetType = msgspec.UNSET
    total_rate: PerTime | None | msgspec.UnsetType = msgspec.UNSET
    weight: float | None = None


class Key(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `unset`."""

    key: str | None = None


async def _pauses(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    return {"pauses": await timed(site.client.admin.paused())}


async def _pause(request: Request) -> Any:
    return await _change(request, "pause")


async def _resume(request: Request) -> Any:
    return await _change(request, "resume")


async def _change(request: Request, act: str) -> Any:
    site = site_of(request)
    await site.check(request, "control")
    target = body_of(await request.body(), Target)
    names = msgspec.structs.asdict(target)
    admin = site.client.admin
    changed = await timed((admin.pause if act == "pause" else admin.resume)(**names, by=_name(request)))
    site.note(request, act, **names)
    return {"pause": changed}


async def _limits(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    return await _shown(site)


async def _shown(site: Site) -> dict[str, Any]:
    """All limits, each with its values as a phrase."""
    limits = await timed(site.client.admin.limits())
    return {"limits": [{**msgspec.structs.asdict(one), "said": phrase(one.values, one.kind)} for one in limits]}


async def _partitions(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    return {"partitions": await timed(site.client.admin.partitions(request.path_params["name"]))}


async def _set(request: Request) -> Any:
    site, name = site_of(request), request.path_params["name"]
    await site.check(request, "control")
    values = body_of(await request.body(), Values)
    admin, by = site.client.admin, _name(request)
    rate, total_rate = _rate(values.rate), _rate(values.total_rate)
    if values.key is None:
        if values.weight is not None:
            raise Refused(422, "weight: only a key has a weight")
        await timed(
            admin.set_limit(
                name, concurrency=values.concurrency, rate=rate, total=values.total, total_rate=total_rate, by=by
            )
        )
    else:
        await timed(
            admin.set_partition(
                name, values.key, concurrency=values.concurrency or None, rate=rate or None, weight=values.weight, by=by
            )
        )
    site.note(request, "set a limit", limit=name, key=values.key)
    return await _shown(site)


def _rate(given: PerTime | None | msgspec.UnsetType) -> Any:
    return Rate(given.count, given.per_s) if isinstance(given, PerTime) else given


async def _unset(request: Request) -> Any:
    site, name = site_of(request), request.path_params["name"]
    await site.check(request, "control")
    key = body_of(await request.body(), Key).key
    await timed(site.client.admin.unset_limit(name, key))
    site.note(request, "unset a limit", limit=name, key=key)
    return await _shown(site)


def _name(request: Request) -> str | None:
    return access(request.scope).name or None


ROUTES = (
    ("GET", "api/pauses", _pauses),
    ("POST", "api/pause", _pause),
    ("POST", "api/resume", _resume),
    ("GET", "api/limits", _limits),
    ("GET", "api/limits/{name:path}/partitions", _partitions),
    ("POST", "api/limits/{name:path}/set", _set),
    ("POST", "api/limits/{name:path}/unset", _unset),
)

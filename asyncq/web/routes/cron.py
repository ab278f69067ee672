"""Recurring items: read, run now, pause, resume, change, remove."""

from typing import Any

import msgspec
from starlette.requests import Request

from asyncq.domain.cron.status import CronStatus
from asyncq.web.answers import Refused, body_of, timed
from asyncq.web.redaction import Redaction
from asyncq.web.site import site_of


def shown(status: CronStatus, redaction: Redaction) -> dict[str, Any]:
    """An item as it may be shown."""
    return {**msgspec.structs.asdict(status), "payload": redaction.text(status.payload)}


async def _items(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    return {"items": [shown(item, site.redaction) for item in await timed(site.client.cron.list_items())]}


async def _item(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    return {"item": shown(await timed(site.client.cron.get_item(request.path_params["id"])), site.redaction)}


async def _act(request: Request) -> Any:
    site, act, identifier = site_of(request), request.path_params["act"], request.path_params["id"]
    cron = site.client.cron
    acts = {"pause": cron.pause, "resume": cron.resume, "remove": cron.remove}
    await site.check(request, "cron")
    if act == "run":
        added = await timed(cron.run(identifier))
        site.note(request, "run a recurring item", item=identifier)
        return {"id": str(added.id), "outcome": added.outcome}
    if act not in acts:
        raise Refused(404, f"no action is called {act[:40]!r}: there are pause, resume, remove, run")
    item = await timed(acts[act](identifier))
    site.note(request, f"{act} a recurring item", item=identifier)
    return {"item": shown(item, site.redaction)}


class Changes(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change: a member that is missing stays."""

    match: str | msgspec.UnsetType = msgspec.UNSET
    tz: str | msgspec.UnsetType = msgspec.UNSET
    overlap: str | msgspec.UnsetType = msgspec.UNSET
    priority: int | None | msgspec.UnsetType = msgspec.UNSET
    max_attempts: int | None | msgspec.UnsetType = msgspec.UNSET
    queue: str | None | msgspec.UnsetType = msgspec.UNSET


async def _change(request: Request) -> Any:
    site, identifier = site_of(request), request.path_params["id"]
    await site.check(request, "cron")
    given = msgspec.structs.asdict(body_of(await request.body(), Changes))
    changes: Any = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    item = await timed(site.client.cron.change(identifier, **changes))
    site.note(request, "change a recurring item", item=identifier, fields=",".join(changes))
    return {"item": shown(item, site.redaction)}


ROUTES = (
    ("GET", "api/cron", _items),
    ("POST", "api/cron/{id:path}/{act}", _act),
    ("PUT", "api/cron/{id:path}", _change),
    ("GET", "api/cron/{id:path}", _item),
)

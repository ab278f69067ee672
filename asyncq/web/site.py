"""The parts of one dashboard that its routes share."""

import asyncio
import logging
from typing import Any

from starlette.requests import Request

from asyncq.client import Client
from asyncq.domain.administration import Rights
from asyncq.web.access import ACTIONS, Action
from asyncq.web.answers import Refused, timed
from asyncq.web.bulk import Bulk
from asyncq.web.guard import access
from asyncq.web.live import Live
from asyncq.web.redaction import Redaction

RIGHTS_FOR_S = 30.0  # A standby may be promoted, and a role may be granted more.
audit = logging.getLogger("asyncq.dashboard")


class Site:
    """The client, and what may be shown and changed.

    Args:
        client: Opened at the first request; it stays open.
        redaction: Applied to all payloads, results and meta.
        live: The looks that all browsers share.
        read_only: Whether nobody may change anything.
    """

    def __init__(self, client: Client, redaction: Redaction, live: Live, *, read_only: bool) -> None:
        self.client = client
        self.redaction = redaction
        self.live = live
        self.bulk = Bulk()
        self._read_only = read_only
        self._opening = asyncio.Lock()

    async def open(self) -> Rights:
        """Open the client if it is not open. Returns what its role may do, as it was half a minute ago or later."""
        async with self._opening:
            if not self.client.is_open:
                await self.client.open()
        rights: Rights = await self.live.look("rights", lambda: timed(self.client.admin.rights()), RIGHTS_FOR_S)
        return rights

    async def allowed(self, request: Request) -> list[Action]:
        """The actions that the user may take, and the role of the database too."""
        rights = await self.open()
        if self._read_only or not rights.may_change:
            return []
        return [action for action in ACTIONS if action in access(request.scope).can]

    async def check(self, request: Request, *actions: Action) -> None:
        """Refuse a request of a user that may take none of these actions."""
        rights = await self.open()
        if not set(actions).isdisjoint(await self.allowed(request)):
            return
        if self._read_only:
            raise Refused(403, "this dashboard is read-only")
        if rights.is_standby:
            raise Refused(403, "the server is a standby: nothing can be changed there")
        if not rights.may_change:
            raise Refused(403, "the role of the database may not change jobs, or its transactions are read-only")
        raise Refused(403, f"you may not do that: it needs the right {actions[0]!r}")

    def note(self, request: Request, did: str, **about: Any) -> None:
        """Write one line of the audit log: who did what; never a payload."""
        name = access(request.scope).name or (request.client.host if request.client else "unknown")
        said = ", ".join(f"{key}={value!r}" for key, value in about.items() if value is not None)
        audit.info("dashboard: %s: %s%s", name, did, f" ({said})" if said else "")


def site_of(request: Request) -> Site:
    """The site of the application that serves a request."""
    site: Site = request.app.state.site
    return site

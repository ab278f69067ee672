"""The metrics of the store for Prometheus, with the names of `asyncq metrics`; they need the extra `metrics`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from asyncq.domain.errors import ConfigurationError
from asyncq.web.answers import Refused, timed
from asyncq.web.site import site_of


async def _metrics(request: Request) -> Any:
    """A page of metrics; several scrapers share one look at the database."""
    try:
        from asyncq.metrics import page_of, read_store
    except ConfigurationError as error:
        raise Refused(501, str(error)) from error
    site = site_of(request)
    await site.open()
    numbers = await site.live.look("metrics", lambda: timed(read_store(site.client)))
    page, kind = page_of(numbers, request.headers.get("accept", ""))
    return Response(page, media_type=kind)


ROUTES = (("GET", "metrics", _metrics),)

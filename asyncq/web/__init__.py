"""The dashboard: an ASGI application to look at a queue and to change it; needs the extra `dashboard`."""

from asyncq.web.access import Access, Authorize
from asyncq.web.dashboard import Dashboard

__all__ = ["Access", "Authorize", "Dashboard"]

"""The routes of the dashboard: the page and its files, and the API below `api/`."""

from starlette.routing import BaseRoute, Route

from asyncq.web.answers import endpoint
from asyncq.web.routes import bulk, control, cron, files, job, metrics, overview, search, series, workers


def routes() -> list[BaseRoute]:
    """All routes; each path is relative to the place where the dashboard is mounted."""
    found: list[BaseRoute] = []
    for part in (overview, series, search, job, bulk, control, cron, workers, metrics):
        found += [Route(f"/{path}", endpoint(handler), methods=[method]) for method, path, handler in part.ROUTES]
    return [*found, *files.ROUTES]

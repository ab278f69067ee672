"""Numbers over time, as columns for charts: ended runs and depths of all tasks, and those of one task."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.requests import Request

from asyncq.domain.finding import Depths, TaskStats, quantile
from asyncq.web.answers import Refused, timed
from asyncq.web.site import Site, site_of

FOR_S = 10.0
# The ranges of the charts in minutes, each with a step that makes some sixty points.
RANGES = {60: 1, 360: 15, 1440: 30, 10080: 180}


async def _series(request: Request) -> Any:
    site = site_of(request)
    await site.open()
    minutes = _range(request)
    ended = await _stats(site, minutes, "")
    depths = await site.live.look(("depths", minutes), lambda: _depths(site, minutes), FOR_S)
    return {"ended": columns(ended), "depths": _depth_columns(depths)}


async def _task(request: Request) -> Any:
    """The series of one task, and its sums."""
    site, name = site_of(request), request.path_params["name"]
    await site.open()
    stats = await _stats(site, _range(request), name)
    took, waited = (_sums([getattr(step, part) for step in stats]) for part in ("took", "waited"))
    totals = {word: sum(getattr(step, word) for step in stats) for word in ("completed", "retried", "discarded")}
    return {
        "ended": columns(stats),
        "totals": {
            **totals,
            "took": took,
            "took_p50": quantile(took, 0.5),
            "took_p95": quantile(took, 0.95),
            "waited_p95": quantile(waited, 0.95),
        },
    }


def _range(request: Request) -> int:
    text = request.query_params.get("minutes", "60")
    if not text.isascii() or not text.isdigit() or int(text) not in RANGES:
        raise Refused(422, f"minutes must be one of {', '.join(map(str, RANGES))}")
    return int(text)


async def _stats(site: Site, minutes: int, task: str) -> list[TaskStats]:
    async def read() -> list[TaskStats]:
        since = await site.client.admin.now() - timedelta(minutes=minutes)
        return await site.client.admin.stats(since, step=timedelta(minutes=RANGES[minutes]), task=task)

    found: list[TaskStats] = await site.live.look(("stats", minutes, task), lambda: timed(read()), FOR_S)
    return found


async def _depths(site: Site, minutes: int) -> list[Depths]:
    since = await timed(site.client.admin.now()) - timedelta(minutes=minutes)
    return await timed(site.client.admin.depths(since, step=timedelta(minutes=RANGES[minutes])))


def columns(stats: Sequence[TaskStats]) -> dict[str, list[Any]]:
    """Steps of one task, or of all as one, as columns."""
    return {
        "at": [step.at.timestamp() for step in stats],
        "completed": [step.completed for step in stats],
        "retried": [step.retried for step in stats],
        "discarded": [step.discarded for step in stats],
        "took_p95": [quantile(step.took, 0.95) for step in stats],
        "waited_p95": [quantile(step.waited, 0.95) for step in stats],
    }


def _depth_columns(depths: Sequence[Depths]) -> dict[str, list[Any]]:
    return {
        "at": [step.at.timestamp() for step in depths],
        "available": [step.available for step in depths],
        "active": [step.active for step in depths],
    }


def _sums(buckets: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*buckets, strict=True)]


ROUTES = (
    ("GET", "api/series", _series),
    ("GET", "api/tasks/{name:path}", _task),
)

"""Numbers over time, as columns for charts: ended runs and depths of all tasks, and those of one task."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
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
    at, ended = await _stats(site, minutes, "")
    depths = await site.live.look(("depths", minutes), lambda: _depths(site, minutes), FOR_S)
    return {"ended": _columns(at, ended), "depths": _depth_columns(*depths)}


async def _task(request: Request) -> Any:
    """The series of one task, and its sums."""
    site, name = site_of(request), request.path_params["name"]
    await site.open()
    at, stats = await _stats(site, _range(request), name)
    took, waited = (_sums([getattr(step, part) for step in stats]) for part in ("took", "waited"))
    totals = {word: sum(getattr(step, word) for step in stats) for word in ("completed", "retried", "discarded")}
    return {
        "ended": _columns(at, stats),
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


async def _moments(site: Site, minutes: int) -> list[datetime]:
    """The beginnings of all steps until now: a step without numbers has its place in the chart too."""
    step_s = 60 * RANGES[minutes]
    last = int((await site.client.admin.now()).timestamp()) // step_s * step_s
    return [datetime.fromtimestamp(at, UTC) for at in range(last - 60 * minutes, last + 1, step_s)]


async def _stats(site: Site, minutes: int, task: str) -> tuple[list[datetime], list[TaskStats]]:
    async def read() -> tuple[list[datetime], list[TaskStats]]:
        at = await _moments(site, minutes)
        return at, await site.client.admin.stats(at[0], step=timedelta(minutes=RANGES[minutes]), task=task)

    found: tuple[list[datetime], list[TaskStats]] = await site.live.look(
        ("stats", minutes, task), lambda: timed(read()), FOR_S
    )
    return found


async def _depths(site: Site, minutes: int) -> tuple[list[datetime], list[Depths]]:
    at = await timed(_moments(site, minutes))
    return at, await timed(site.client.admin.depths(at[0], step=timedelta(minutes=RANGES[minutes])))


def _columns(at: Sequence[datetime], stats: Sequence[TaskStats]) -> dict[str, list[Any]]:
    """Steps of one task, or of all as one, as columns; in a step without a row nothing ended."""
    rows = {step.at: step for step in stats}
    steps = [rows.get(moment) for moment in at]
    return {
        "at": [moment.timestamp() for moment in at],
        **{word: [getattr(step, word, 0) for step in steps] for word in ("completed", "retried", "discarded")},
        "took_p95": [step and quantile(step.took, 0.95) for step in steps],
        "waited_p95": [step and quantile(step.waited, 0.95) for step in steps],
    }


def _depth_columns(at: Sequence[datetime], depths: Sequence[Depths]) -> dict[str, list[Any]]:
    """Without a row no worker has counted the jobs: there is a gap."""
    rows = {step.at: step for step in depths}
    steps = [rows.get(moment) for moment in at]
    return {
        "at": [moment.timestamp() for moment in at],
        **{word: [getattr(step, word, None) for step in steps] for word in ("available", "active")},
    }


def _sums(buckets: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*buckets, strict=True)]


ROUTES = (
    ("GET", "api/series", _series),
    ("GET", "api/tasks/{name:path}", _task),
)

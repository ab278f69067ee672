"""The dashboard inside of other applications: page, file, API, stream, stop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import django
import httpx
import pytest
from django.conf import settings
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from asyncq import Client
from asyncq.web import Dashboard
from asyncq.web import dashboard as web
from asyncq.web.live import Live
from tests.support.serving import serving
from tests.support.waiting import LIMIT_S


def in_starlette(dashboard: Dashboard) -> ASGIApp:
    """By a route."""
    return Starlette(routes=[Mount("/jobs", dashboard)])


def in_fastapi(dashboard: Dashboard) -> ASGIApp:
    """By its own method."""
    app = FastAPI()
    app.mount("/jobs", dashboard)
    return app


def in_litestar(dashboard: Dashboard) -> ASGIApp:
    """By a handler of its kind."""
    from litestar import Litestar, asgi

    served: Any = dashboard
    app: Any = Litestar([asgi("/jobs", is_mount=True, copy_scope=True)(served)])
    return app


def beside_django(dashboard: Dashboard) -> ASGIApp:
    """Django has no mount: its documents say to choose by the path."""
    if not settings.configured:
        cast(Any, settings).configure(ROOT_URLCONF=__name__, SECRET_KEY="x" * 50, ALLOWED_HOSTS=["*"])
        django.setup()
    from django.core.asgi import get_asgi_application

    other: Any = get_asgi_application()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/jobs"):
            await dashboard({**scope, "root_path": "/jobs"}, receive, send)
        else:
            await other(scope, receive, send)

    return app


urlpatterns: list[Any] = []
ALL = [in_starlette, in_fastapi, in_litestar, beside_django]


@pytest.mark.parametrize("mounted", ALL, ids=lambda mounted: mounted.__name__)
async def test_it_works_where_it_is_mounted(client: Client, mounted: Any) -> None:
    """It opens itself: a mounted application gets no lifespan."""
    job = await client.add_job("hello")
    dashboard = Dashboard(client, authorize=lambda _: "write")
    async with serving(mounted(dashboard)) as address, httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http:
        page = await http.get("jobs", follow_redirects=True)
        assert f"{address}jobs/" == str(page.url)
        assert "static/app.js" in page.text
        assert "text/javascript" in (await http.get("jobs/static/app.js")).headers["content-type"]
        assert str(job.id) == (await http.get(f"jobs/api/jobs/{job.id}")).json()["id"]
        headers = {"x-asyncq": "1", "content-type": "application/json"}
        done = await http.post("jobs/api/jobs/cancel", headers=headers, json={"ids": [str(job.id)]})
        assert {"changed": [str(job.id)]} == done.json()
        async with http.stream("GET", "jobs/api/events") as stream:
            assert (await anext(aiter(stream.aiter_lines()))).startswith("data: {")


async def test_a_file_is_asked_for_again_only_if_it_has_changed(client: Client, address: str) -> None:
    """By its tag."""
    async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http:
        first = await http.get("static/app.js")
        again = await http.get("static/app.js", headers={"if-none-match": first.headers["etag"]})

        assert (304, b"") == (again.status_code, again.content)
        assert 404 == (await http.get("static/../app.py")).status_code
        assert 404 == (await http.get("static/vendor/VENDOR.toml")).status_code


@asynccontextmanager
async def streams(address: str, count: int) -> AsyncGenerator[list[AsyncIterator[str]]]:
    """Open streams, each of which has had its first message."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=LIMIT_S) as http:
        opened = [await http.send(http.build_request("GET", "api/events"), stream=True) for _ in range(count)]
        lines = [stream.aiter_lines() for stream in opened]
        await asyncio.gather(*(anext(line) for line in lines))
        yield lines
        for stream in opened:
            await stream.aclose()


async def test_many_browsers_share_one_look(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is asked as for one. The clock stands still: to open 64 may take longer than a look holds."""
    monkeypatch.setattr(web, "Live", partial(Live, clock=lambda: 0.0))
    looked = 0
    counts = client.admin.counts

    async def counted(**options: Any) -> Any:
        nonlocal looked
        looked += 1
        return await counts(**options)

    monkeypatch.setattr(client.admin, "counts", counted)
    app = Dashboard(client, authorize=lambda _: "read")
    async with app as dashboard, serving(dashboard) as address, streams(address, 64):
        pass

    assert 1 == looked


async def test_streams_end_when_the_server_stops(client: Client) -> None:
    """A server waits for its requests: a stream must not hold it up."""
    app = Dashboard(client, authorize=lambda _: "read")
    async with app as dashboard, serving(dashboard) as address, streams(address, 3) as lines:
        dashboard.stop()

        for stream in lines:
            assert "" == "".join([line async for line in stream if line.startswith("data")])

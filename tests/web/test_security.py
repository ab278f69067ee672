"""Who may do what: every route with every access and every kind of request."""

import logging
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from asyncq import Client, JobState
from asyncq.web import Access, Dashboard
from asyncq.web.guard import MAX_BODY, SECURITY
from asyncq.web.routes import routes
from tests.support.serving import serving
from tests.support.waiting import LIMIT_S

ALL = [route for route in routes() if isinstance(route, Route)]
READS = sorted({route.path for route in ALL if "GET" in (route.methods or ())})
WRITES = sorted(
    {(method, route.path) for route in ALL for method in {"POST", "PUT", "DELETE"} & (route.methods or set())}
)
OWN = {"x-asyncq": "1", "content-type": "application/json", "sec-fetch-site": "same-origin"}

Decision = Any


def filled(path: str, job_id: int | str = 1) -> str:
    """A path with values in the place of its parameters."""
    names = {"{id}": str(job_id), "{action}": "cancel", "{act}": "run", "{name:path}": "x", "{id:path}": "x"}
    for name, value in names.items():
        path = path.replace(name, value)
    return path


async def status_of(client: Client, decision: Decision, method: str, path: str, **headers: str) -> int:
    """The status of one request to a dashboard whose `authorize` decides so."""

    def authorize(_: MutableMapping[str, Any]) -> Decision:
        if isinstance(decision, Exception):
            raise decision
        return decision

    app = Dashboard(client, authorize=authorize)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        answer = await http.request(method, path, headers=headers, content=b"{}" if method != "GET" else None)
    assert SECURITY.items() - {("cache-control", "no-store")} <= dict(answer.headers).items()
    return answer.status_code


@pytest.mark.parametrize("decision", [None, "wrong", RuntimeError("no"), 1, True, "READ"], ids=repr)
async def test_nothing_is_read_without_a_right_decision(client: Client, decision: Decision) -> None:
    """An error of `authorize`, and an answer that it may not give, refuse the request."""
    for path in READS:
        if path != "/healthz":
            assert 401 == await status_of(client, decision, "GET", filled(path)), path


@pytest.mark.parametrize(
    ("decision", "headers", "status"),
    [
        (None, OWN, 401),
        ("read", OWN, 403),
        (Access(name="ann"), OWN, 403),
        ("write", OWN | {"x-asyncq": "yes"}, 403),
        ("write", {"content-type": "application/json"}, 403),
        ("write", OWN | {"sec-fetch-site": "cross-site"}, 403),
        ("write", OWN | {"sec-fetch-site": "same-site"}, 403),
        ("write", OWN | {"content-type": "text/plain"}, 415),
        ("write", OWN | {"content-type": "application/x-www-form-urlencoded"}, 415),
        ("write", OWN | {"content-length": str(MAX_BODY + 1)}, 413),
    ],
)
async def test_nothing_is_changed_by_a_request_that_may_not(
    client: Client, decision: Decision, headers: dict[str, str], status: int
) -> None:
    """No form and no other site can send the header; the answer comes before any effect."""
    job = await client.add_job("hello")

    for method, path in WRITES:
        assert status == await status_of(client, decision, method, filled(path, job.id), **headers), path
    assert JobState.AVAILABLE == (await client.get_job(job.id)).state


@pytest.mark.parametrize("path", ["/api/jobs/cancel", "/api/jobs/1"])
async def test_no_other_site_may_read(client: Client, path: str) -> None:
    """No answer has a header of CORS, also not to a preflight."""
    app = Dashboard(client, authorize=lambda _: "write")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        wish = {"origin": "https://elsewhere.test", "access-control-request-method": "POST"}
        for method in ("OPTIONS", "GET", "POST"):
            answer = await http.request(method, path, headers=wish)

            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_body_is_counted_as_it_arrives(client: Client) -> None:
    """A body without an announced length ends at 1 MiB too."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * (MAX_BODY // 2)

    async with (
        serving(Dashboard(client, authorize=lambda _: "write")) as address,
        httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http,
    ):
        answer = await http.post("api/jobs/cancel", headers=OWN, content=parts())

    assert 413 == answer.status_code


@pytest.mark.parametrize("can", [{"cancel"}, {"change", "cancel"}])
async def test_an_access_may_do_what_it_names(client: Client, can: Any) -> None:
    """An application may let its operators cancel, and not remove."""
    job = await client.add_job("hello")
    app = Dashboard(client, authorize=lambda _: Access(name="ann", can=frozenset(can)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=OWN) as http:
        refused = await http.post("/api/jobs/remove", json={"ids": [str(job.id)]})
        done = await http.post("/api/jobs/cancel", json={"ids": [str(job.id)]})

        assert 403 == refused.status_code
        assert {"changed": [str(job.id)]} == done.json()


async def test_each_change_is_a_line_of_the_audit_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """It names the user and the jobs, and no payload."""
    caplog.set_level(logging.INFO, "asyncq.dashboard")
    app = Dashboard(client, authorize=lambda _: Access(name="ann", can=frozenset({"add", "cancel"})))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=OWN) as http:
        added = (await http.post("/api/jobs/add", json={"task": "hello", "payload": {"card": "4111"}})).json()["id"]
        await http.post("/api/jobs/cancel", json={"ids": [added]})

    said = [record.getMessage() for record in caplog.records if record.name == "asyncq.dashboard"]
    assert [
        f"dashboard: ann: add a job (id={added}, task='hello')",
        f"dashboard: ann: cancel jobs (ids='{added}', count=1)",
    ] == said


async def test_a_read_only_dashboard_changes_nothing(client: Client) -> None:
    """Whatever `authorize` says."""
    app = Dashboard(client, authorize=lambda _: "write", read_only=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", headers=OWN) as http:
        answer = await http.post("/api/jobs/cancel", json={"ids": ["1"]})

        assert (403, "this dashboard is read-only") == (answer.status_code, answer.json()["error"]["message"])
        assert [] == (await http.get("/api/me")).json()["can"]


async def test_secrets_leave_the_server_nowhere(client: Client) -> None:
    """A redacted value is in no answer."""
    job = await client.add_job("hello", {"user": {"Password": "s3cret-1"}, "list": [{"token": "s3cret-2"}], "n": 1})
    app = Dashboard(client, authorize=lambda _: "write")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        for path in READS:
            if path != "/api/events":
                assert "s3cret" not in (await http.get(filled(path, job.id))).text, path


async def test_a_dashboard_that_hides_payloads_shows_none(client: Client) -> None:
    """Neither payload nor meta."""
    job = await client.add_job("hello", {"n": "seen-1"}, meta={"m": "seen-2"})
    app = Dashboard(client, authorize=lambda _: "read", hide_payloads=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        answer = await http.get(f"/api/jobs/{job.id}")

    assert "seen" not in answer.text
    assert answer.json()["job"]["payload"] is None

"""The metrics of the store on the dashboard, for Prometheus."""

import sys

import httpx
import pytest

from asyncq import Client, CronItem, task
from asyncq.web import Dashboard
from asyncq.web.token import TokenDoor
from tests.engine.probes.test_counters import documented, exported
from tests.support.serving import serving
from tests.support.waiting import LIMIT_S
from tests.support.web import Page

TOKEN = "t" * 32


@task
async def greet() -> None:
    """A job that ends well."""


async def test_the_dashboard_shows_the_metrics_of_the_guide(client: Client, http: httpx.AsyncClient) -> None:
    """The names are those of `asyncq metrics`, in both formats."""
    await client.cron.add(CronItem("greet", "0 3 * * *"))
    await client.add_jobs([greet.job(), greet.job()])
    plain = await http.get("metrics")
    openmetrics = await http.get("metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    page = Page(200, plain.text, dict(plain.headers))

    assert documented("asyncq_store_") == exported(page.text)
    assert 2 == page.value("asyncq_store_jobs", state="available")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


async def test_a_scraper_needs_the_token(client: Client) -> None:
    """As a bearer; without it neither the metrics nor the backlog are shown."""
    door = TokenDoor(TOKEN, "read")
    async with (
        serving(door.around(Dashboard(client, authorize=door.authorize))) as address,
        httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as http,
    ):
        for path in ("metrics", "api/backlog"):
            closed = await http.get(path)
            wrong = await http.get(path, headers={"authorization": "Bearer " + "x" * 32})
            right = await http.get(path, headers={"authorization": f"Bearer {TOKEN}"})

            assert [401, 401, 200] == [answer.status_code for answer in (closed, wrong, right)], path
            assert "asyncq_store" not in closed.text + wrong.text


async def test_without_the_package_the_answer_names_the_extra(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dashboard needs it for nothing else."""
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.delitem(sys.modules, "asyncq.metrics", raising=False)
    answer = await http.get("metrics")

    assert 501 == answer.status_code
    assert "pip install 'asyncq[metrics]'" in answer.json()["error"]["message"]

"""A worker without the package prometheus_client answers probes, and says what metrics need."""

import sys

import pytest

from tests.engine.conftest import MakeWorker
from tests.engine.probes.test_probes import HERE, address_of
from tests.support.seen import Seen
from tests.support.web import fetch


async def test_without_the_package_only_metrics_are_missing(
    make_worker: MakeWorker, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that needs probes alone installs nothing more."""
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.delitem(sys.modules, "asyncq.engine.probes.exposition", raising=False)
    async with make_worker(http=HERE).start():
        at = await address_of(seen)
        pages = [await fetch(f"{at}/{name}") for name in ("healthz", "readyz", "metrics")]

    assert [200, 200, 501] == [page.status for page in pages]
    assert "metrics need the package prometheus_client: pip install 'asyncq[metrics]'\n" == pages[2].text

"""The dashboard and the alerts of docs/grafana use metrics and labels that exist: those of the guide.

Other tests compare the guide with the metrics that are exported.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.probes.test_counters import documented

FOLDER = Path(__file__).parents[2] / "docs/grafana"
ALERTS = (FOLDER / "alerts.yaml").read_text()
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALL = documented("asyncq_")
# Those of Prometheus itself.
OF_EVERY_TARGET = {"instance", "job"}
USED = re.compile(r"\b(asyncq_\w+)(?:\{([^}]*)\})?")


def names_of(metric: str) -> set[str]:
    """The names of the series of a metric."""
    return {f"{metric}{end}" for end in ("_bucket", "_sum", "_count")} if ALL[metric][0] == "histogram" else {metric}


SERIES = {name: ALL[metric][1] | OF_EVERY_TARGET for metric in ALL for name in names_of(metric)}


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression, with the text that shows its labels."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for rule in ALERTS.split("- alert: ")[1:]:
        (expression,) = re.findall(r"^ +expr: (.+)$", rule, re.MULTILINE)
        yield expression, rule.partition("summary:")[2]


def faults(expression: str, shown: str = "") -> list[str]:
    """The metrics and labels of an expression that do not exist."""
    used = USED.findall(expression)
    found = [name for name, _ in used if name not in SERIES]
    labels = {label for name, _ in used for label in SERIES.get(name, ())} | {"le"}
    wanted = {label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r", *", group)}
    wanted |= set(re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", shown))
    found += sorted(wanted - labels)
    for name, inside in used:
        found += sorted(set(re.findall(r"(\w+) *(?:=~|!=|!~|=)", inside)) - SERIES.get(name, set()))
    return found


def test_each_metric_and_label_exists() -> None:
    """A panel of a name that nobody exports stays empty, and an alert never fires."""
    assert {} == {expression: found for expression, shown in expressions() if (found := faults(expression, shown))}


def test_each_metric_is_on_the_dashboard() -> None:
    """A number that nobody looks at need not be counted."""
    shown = {
        name for panel in DASHBOARD["panels"] for target in panel["targets"] for name, _ in USED.findall(target["expr"])
    }

    assert set() == {metric for metric in ALL if not names_of(metric) & shown}


def test_the_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    """Grafana would move them."""
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]

    assert len(cells) == len(set(cells))
    assert len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})


@pytest.mark.parametrize(
    ("expression", "shown", "expected"),
    [
        ("rate(asyncq_jobs_total[5m])", "", []),
        ("rate(asyncq_jobs[5m])", "", ["asyncq_jobs"]),
        ("asyncq_job_wait_seconds", "", ["asyncq_job_wait_seconds"]),
        ('asyncq_jobs_total{queue="q"}', "", ["queue"]),
        ("sum by (le, queue) (asyncq_jobs_total)", "", ["queue"]),
        ("asyncq_jobs_total", "{{task}} {{ $labels.queue }}", ["queue"]),
    ],
)
def test_the_scan_sees_what_does_not_exist(expression: str, shown: str, expected: list[str]) -> None:
    """A rule whose check sees nothing is no rule."""
    assert expected == faults(expression, shown)

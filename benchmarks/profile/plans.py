"""The time of the server's statements by node of their plans, of which auto_explain logs a sample."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.profile.server_side import name_of

LIBRARY = "auto_explain"
SAMPLE = 0.05
SETTINGS = {
    f"{LIBRARY}.log_min_duration": "0",
    f"{LIBRARY}.log_analyze": "on",
    f"{LIBRARY}.log_format": "json",
    f"{LIBRARY}.sample_rate": str(SAMPLE),
}
MOST = 12

_RETURNED = re.compile(r"\$\d+")
_PLAN = re.compile(r"duration: [\d.]+ ms  plan:\s*")


def parts(log: str) -> dict[str, float]:
    """The nodes that take the most time.

    Args:
        log: The log of the server.

    Returns:
        Statement and node -> share of the time of all statements that were sampled, in percent, the largest first.
    """
    spent: dict[str, float] = {}
    for logged in _logged(log):
        name = name_of(logged["Query Text"])
        lent = {_sign(node): _total(node) for node in _nodes(logged["Plan"]) if _sign(node)}
        for node in _nodes(logged["Plan"]):
            label = f"{name}: {_label(node)}"
            spent[label] = spent.get(label, 0.0) + _own(node, lent)
    everything = sum(spent.values())
    largest = sorted(spent.items(), key=lambda item: -item[1])[:MOST]
    return {label: 100 * ms / everything for label, ms in largest} if everything else {}


def _logged(log: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    for found in _PLAN.finditer(log):
        try:
            plan, _ = decoder.raw_decode(log, found.end())
        except ValueError:
            continue  # it is still being written
        yield plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _sign(node: dict[str, Any]) -> str:
    """The name by which others refer to a node that runs when its result is first read; empty for other nodes."""
    name: str = node.get("Subplan Name", "")
    if name.startswith("CTE "):
        return name[4:]
    if not name.startswith("InitPlan"):
        return ""
    returned = _RETURNED.search(name)
    return returned[0] if returned else f"({name})"


def _total(node: dict[str, Any]) -> float:
    """Its milliseconds, with all that it calls."""
    return node.get("Actual Total Time", 0.0) * node.get("Actual Loops", 0)


def _own(node: dict[str, Any], lent: dict[str, float]) -> float:
    """Its milliseconds without those of its children, and of nodes declared elsewhere that it reads first."""
    called = sum(_total(child) for child in node.get("Plans", ()) if not _sign(child))
    said = [
        node.get("CTE Name", ""),
        *(value for key, value in node.items() if key.endswith(("Cond", "Filter")) and isinstance(value, str)),
    ]
    read = [sign for sign in lent if any(sign == word or _mentions(word, sign) for word in said)]
    return max(0.0, _total(node) - called - sum(lent.pop(sign) for sign in read))


def _mentions(said: str, sign: str) -> bool:
    return sign[:1] in "$(" and re.search(re.escape(sign) + r"(?!\d)", said) is not None


def _label(node: dict[str, Any]) -> str:
    of = next((node[key] for key in ("Index Name", "CTE Name", "Relation Name") if key in node), "")
    kind = node.get("Operation", node["Node Type"])
    return f"{kind} {of}".strip()

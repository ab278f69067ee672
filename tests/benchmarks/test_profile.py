"""The profile counts every sample once, and adds nothing up that did not happen."""

import json
from typing import Any

import pytest

from asyncq.store.statements import folder
from benchmarks.profile.plans import parts
from benchmarks.profile.server_side import Backends, by_name, name_of
from benchmarks.profile.stacks import LOOP, shares
from benchmarks.profile.steps import STEPS, WHOLE, steps
from benchmarks.profile.table import table

MAIN = "main (benchmarks/profile/program.py:99);Runner.run (asyncio/runners.py:118)"


def test_the_innermost_frame_that_has_a_part_decides() -> None:
    """Library calls count for the part that made them. Frames below no part count for the event loop."""
    lines = [
        f"{MAIN};job_loop (asyncq/engine/job_loop.py:36);run (asyncq/engine/run/executor.py:9);describe (enum.py:3) 3",
        f"{MAIN};run (asyncq/engine/run/executor.py:9);start (asyncq/engine/base/user_code.py:37) 2",
        f"{MAIN} 5",
    ]

    expected = {LOOP: 0.5, "run: executor, context": 0.3, "handler's asyncio task and context": 0.2}
    assert expected == shares(lines)


def test_a_statement_is_known_by_its_file() -> None:
    """The server shows it without its comment, and with other parameters for constants."""
    text = (folder() / "queries" / "settle" / "settle_completed.sql").read_text()
    shown = "\n".join(line for line in text.splitlines() if not line.startswith("--"))

    assert "settle_completed" == name_of(shown)
    assert "vacuum" == name_of("VACUUM asyncq._jobs")


def test_statements_of_a_name_are_added_up() -> None:
    """The same statement is listed once for each user and each top level."""
    row = {"query": "select 1", "calls": 2, "exec_us": 3.0, "wal_bytes": 4.0}

    assert {"select": (4, 6.0, 8.0)} == by_name([row, row])


def node(kind: str, ms: float, *children: dict[str, Any], **said: Any) -> dict[str, Any]:
    """A node of a plan as auto_explain logs it."""
    said = {key.replace("_", " "): value for key, value in said.items()}
    return {"Node Type": kind, "Actual Total Time": ms, "Actual Loops": 1, "Plans": list(children), **said}


@pytest.mark.parametrize(("name", "said"), [("InitPlan 2 (returns $12)", "$12"), ("InitPlan 2", "(InitPlan 2).col1")])
def test_each_millisecond_of_a_plan_belongs_to_one_node(name: str, said: str) -> None:
    """A subplan that runs when it is first read appears elsewhere in the plan.

    Its time belongs to it, not to the reader.
    """
    plan = node(
        "ModifyTable",
        10.0,
        node("Limit", 3.0, Subplan_Name="CTE held"),
        node("Result", 4.0, node("CTE Scan", 3.5, CTE_Name="held"), Subplan_Name=name),
        node("Tid Scan", 6.0, Rows_Removed_by_Filter=3, TID_Cond=f"(ctid = ANY ({said}))"),
        Operation="Delete",
    )
    text = json.dumps({"Query Text": "delete\nfrom x", "Plan": plan}, indent=2).replace("\n", "\n\t")
    log = f"2026 LOG:  duration: 10.1 ms  plan:\n\t{text}\n2026 LOG:  duration: 1.0 ms  plan:\n\t{{ cut"
    expected = {"Delete": 40.0, "Limit": 30.0, "Tid Scan": 20.0, "Result": 5.0, "CTE Scan held": 5.0}

    assert {f"delete: {label}": share for label, share in expected.items()} == parts(log)


def test_a_process_that_has_ended_keeps_its_last_figure() -> None:
    """A worker closes its connections before the last sample."""
    backends = Backends()
    backends.look({-1: "asyncq fetch"})
    backends.look({})

    assert {"asyncq fetch": 0.0} == backends.seconds()


def test_the_steps_of_a_job_add_up_to_its_way() -> None:
    """Each nanosecond belongs to one step."""
    ms = 1_000_000
    found = steps([0], [5 * ms], [3 * ms], [(0, 7 * ms)], warm_up=0)

    assert [3.0, 4.0] == [found[step] for step in STEPS]
    assert 7.0 == found[WHOLE]


def test_a_job_that_the_worker_had_to_look_for_does_not_count() -> None:
    """The worker's next message belongs to another job."""
    assert {} == steps([0], [5], [4], [(0, 3)], warm_up=0)


def test_the_largest_part_comes_first() -> None:
    """Parts that round to zero are left out."""
    assert table("worker", "us", {"a": 0.001, "b": 1.0, "c": 2.0}).splitlines()[2:] == ["| c | 2.00 |", "| b | 1.00 |"]

"""What `doctor` says of what it found."""

from datetime import UTC, datetime
from typing import Any

import pytest

from asyncq.domain.checkup import MOST_SHOWN, Checkup, Violation

WELL: dict[str, Any] = {
    "up_since": datetime(2026, 11, 20, 12, 30, tzinfo=UTC),
    "in_recovery": False,
    "clock_moved": False,
    "live": 2,
    "gone": 0,
    "unknown_tasks": (),
    "holders": (),
    "violations": (),
}


def found(**changed: Any) -> list[tuple[str, str, str]]:
    """The findings of a checkup; those that a healthy store has too are left out."""
    healthy = Checkup(**WELL).findings
    findings = Checkup(**(WELL | changed)).findings
    return [(one.check, one.level, one.said) for one in findings if one not in healthy]


def test_a_healthy_store_has_one_finding_a_check() -> None:
    """Each says what was looked at: silence would look the same as a check that is not there."""
    checkup = Checkup(**WELL)

    assert [
        ("server", "ok", "it is up since 2026-11-20 12:30:00 UTC"),
        ("workers", "ok", "2 live"),
        ("tasks", "ok", "a live worker knows the tasks of the jobs that wait"),
        ("transactions", "ok", "none is open for more than ten minutes"),
        ("laws", "ok", "they hold"),
    ] == [(one.check, one.level, one.said) for one in checkup.findings]
    assert checkup.is_healthy


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"live": 0}, ("workers", "warning", "0 live")),
        ({"gone": 1}, ("workers", "ok", "2 live, 1 dead ones are not removed yet")),
        ({"unknown_tasks": ("a", "b")}, ("tasks", "warning", "no live worker knows: a, b")),
        ({"holders": ("process 7",)}, ("transactions", "warning", "dead rows cannot be removed because of process 7")),
    ],
)
def test_a_warning_leaves_it_healthy(changed: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """It may be meant so: a store whose workers are down for the night."""
    assert ([expected], True) == (found(**changed), Checkup(**(WELL | changed)).is_healthy)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"in_recovery": True}, "it is a standby or recovers: no job can be added, and none can run"),
        ({"clock_moved": True}, "the clock of the schema was moved by a test; run `asyncq migrate`"),
        ({"violations": (Violation("orphan_claim", 5, "was claimed"),)}, "orphan_claim: job 5 was claimed"),
        ({"violations": (Violation("stale_gates", None, "3 gates"),)}, "stale_gates: 3 gates"),
    ],
)
def test_a_problem_is_not_healthy(changed: dict[str, Any], expected: str) -> None:
    """The command ends with 1."""
    findings = found(**changed)

    assert ([("problem", expected)], False) == (
        [(level, said) for _, level, said in findings],
        Checkup(**(WELL | changed)).is_healthy,
    )


def test_of_many_violations_the_first_of_each_law_are_shown() -> None:
    """A million orphan claims are one thing to know."""
    many = tuple(Violation("orphan_claim", number, "is lost") for number in range(MOST_SHOWN + 2))
    said = [said for *_, said in found(violations=(*many, Violation("stale_gates", None, "3 gates")))]

    assert MOST_SHOWN + 2 == len(said)
    assert ["orphan_claim: and 2 more", "stale_gates: 3 gates"] == said[-2:]

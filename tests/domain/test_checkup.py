"""The report of `doctor` on its findings."""

from datetime import UTC, datetime
from typing import Any

import pytest

from asyncq.domain.checkup import MANY_DEAD, MOST_SHOWN, Checkup, DeadRows, FirstJobs, Holder, Violation
from asyncq.domain.pause import Pause

WELL: dict[str, Any] = {
    "schema": "jobs",
    "up_since": datetime(2026, 11, 20, 12, 30, tzinfo=UTC),
    "in_recovery": False,
    "clock_moved": False,
    "live": 2,
    "gone": 0,
    "unknown_tasks": (),
    "holders": (),
    "sees_all": True,
    "dead_rows": (DeadRows("_jobs", 7, 12, None),),
    "first_jobs": FirstJobs(100, 118, 0.0004),
    "violations": (),
}
SLOT = Holder("slot", None, "left", None, "inactive", None, 2_000_000)
PHRASES = {
    SLOT: "the replication slot left (inactive), 2,000,000 transactions old",
    Holder("idle", 712, "report", "app", "idle in transaction", 3661.4, 9): (
        "process 712 (app, report), idle in transaction, for 3,661 s, 9 transactions old"
    ),
    Holder("transaction", 7, "", "app", "active", 61.0, 1): (
        "process 7 (app, name unknown), active, for 61 s, 1 transactions old"
    ),
    Holder("prepared", None, "two", "app", None, 60.0, 5): (
        "the prepared transaction two (app), for 60 s, 5 transactions old"
    ),
    Holder("standby", 9, "s1", "repl", "active", None, 5): (
        "the standby s1 with feedback, process 9, 5 transactions old"
    ),
}


@pytest.mark.parametrize("holder", PHRASES, ids=lambda holder: holder.kind)
def test_a_holder_is_named_with_all_that_is_needed_to_find_it(holder: Holder) -> None:
    """The report has the process, its owner and the time."""
    assert PHRASES[holder] == str(holder)


def found(**changed: Any) -> list[tuple[str, str, str]]:
    """The findings of a checkup; those that a healthy store has too are left out."""
    healthy = Checkup(**WELL).findings
    findings = Checkup(**(WELL | changed)).findings
    return [(one.check, one.level, one.said) for one in findings if one not in healthy]


def test_a_healthy_store_has_one_finding_a_check() -> None:
    """Each finding says what was checked, so that a missing check differs from a passed one."""
    checkup = Checkup(**WELL)

    assert [
        ("server", "ok", "it is up since 2026-11-20 12:30:00 UTC"),
        ("policies", "ok", "no table has row level security"),
        ("workers", "ok", "2 live"),
        ("tasks", "ok", "live workers know the tasks of all waiting jobs"),
        ("notifications", "ok", "the server's notification queue is 0.0% full"),
        ("horizon", "ok", "nobody has kept dead rows from being removed for a minute"),
        ("dead_rows", "ok", "12 at most, in _jobs"),
        ("first_jobs", "ok", "118 blocks and 0.4 ms to look at the first 100"),
        ("pauses", "ok", "nothing has been paused for more than a day"),
        ("limits", "ok", "no queue or key of a limit has been full for an hour without a start"),
        ("laws", "ok", "they hold"),
    ] == [(one.check, one.level, one.said) for one in checkup.findings]
    assert checkup.is_healthy


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"live": 0}, ("workers", "warning", "0 live")),
        ({"gone": 1}, ("workers", "ok", "2 live, 1 dead ones are not removed yet")),
        ({"unknown_tasks": ("a", "b")}, ("tasks", "warning", "no live worker knows: a, b")),
        ({"holders": (SLOT,)}, ("horizon", "warning", f"dead rows cannot be removed because of {SLOT}")),
        (
            {"dead_rows": (DeadRows("_jobs", 3, MANY_DEAD, WELL["up_since"]),)},
            (
                "dead_rows",
                "warning",
                (
                    "_jobs has 100,000 dead rows beside 3 live ones; it was vacuumed at 2026-11-20 12:30:00 UTC: "
                    "is autovacuum on, and fast enough?"
                ),
            ),
        ),
        (
            {"first_jobs": FirstJobs(100, 48_000, 0.3)},
            (
                "first_jobs",
                "warning",
                "48,000 blocks and 300.0 ms to look at the first 100; 120 blocks would suffice: fetches read dead rows",
            ),
        ),
        (
            {"pauses": (Pause("queue", "reports", None, WELL["up_since"], "ann", "disk full"),)},
            (
                "pauses",
                "warning",
                "the queue 'reports' is paused since 2026-11-20 12:30:00 UTC by ann: disk full",
            ),
        ),
        (
            {"full_keys": ("tenants acme",)},
            (
                "limits",
                "warning",
                "tenants acme is full, and no job of it has started for an hour: do its running jobs hang?",
            ),
        ),
        (
            {"wakeups": 100_001},
            (
                "limits",
                "warning",
                "more than 100,000 wakeups of queues and limits wait: do workers run, and know the tasks?",
            ),
        ),
        (
            {"sees_all": False},
            (
                "horizon",
                "ok",
                (
                    "nobody of this role has kept dead rows from being removed for a minute; "
                    "what other roles do is hidden: grant pg_read_all_stats to see it"
                ),
            ),
        ),
    ],
)
def test_a_warning_leaves_it_healthy(changed: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """It may be intended: the workers of a store may be down for the night."""
    assert ([expected], True) == (found(**changed), Checkup(**(WELL | changed)).is_healthy)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"in_recovery": True}, "it is a standby or in recovery: no job can be added, and none can run"),
        ({"clock_moved": True}, "the clock of the schema was moved by a test; run `asyncq migrate --schema jobs`"),
        ({"violations": (Violation("orphan_claim", 5, "was claimed"),)}, "orphan_claim: job 5 was claimed"),
        ({"violations": (Violation("stale_key_locks", None, "3 key locks"),)}, "stale_key_locks: 3 key locks"),
    ],
)
def test_a_problem_is_not_healthy(changed: dict[str, Any], expected: str) -> None:
    """The command ends with 1."""
    findings = found(**changed)

    assert ([("problem", expected)], False) == (
        [(level, said) for _, level, said in findings],
        Checkup(**(WELL | changed)).is_healthy,
    )


@pytest.mark.parametrize(("usage", "level"), [(0.009, "ok"), (0.01, "warning"), (0.49, "warning"), (0.5, "problem")])
def test_a_notification_queue_that_fills_is_reported(usage: float, level: str) -> None:
    """When it is full, every NOTIFY on the server fails, even of other programs."""
    (finding,) = [one for one in Checkup(**(WELL | {"notifications": usage})).findings if one.check == "notifications"]

    assert (level, f"the server's notification queue is {usage:.1%} full") == (
        finding.level,
        finding.said.partition(":")[0],
    )


def test_a_role_that_sees_only_itself_gets_a_hint_beside_the_findings() -> None:
    """Another session may hold the horizon for longer."""
    said = [said for *_, said in found(holders=(SLOT,), sees_all=False)]

    assert "what other roles do is hidden: grant pg_read_all_stats to see it" == said[1]


def test_a_large_table_with_few_dead_rows_for_its_size_is_well() -> None:
    """The table has a backlog of millions."""
    assert Checkup(**(WELL | {"dead_rows": (DeadRows("_jobs", 10**7, MANY_DEAD, None),)})).findings[6].level == "ok"


def test_dead_rows_that_a_session_keeps_are_not_the_fault_of_vacuum() -> None:
    """One finding names the session, the other the number of rows."""
    said = [said for *_, said in found(holders=(SLOT,), dead_rows=(DeadRows("_jobs", 3, MANY_DEAD, None),))]

    assert "_jobs has 100,000 dead rows beside 3 live ones; it was never vacuumed" == said[1]


def test_of_many_violations_the_first_of_each_law_are_shown() -> None:
    """A million orphan claims are one problem."""
    many = tuple(Violation("orphan_claim", number, "is lost") for number in range(MOST_SHOWN + 2))
    said = [said for *_, said in found(violations=(*many, Violation("stale_key_locks", None, "3 key locks")))]

    assert MOST_SHOWN + 2 == len(said)
    assert ["orphan_claim: and 2 more", "stale_key_locks: 3 key locks"] == said[-2:]

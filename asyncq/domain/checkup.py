"""What `doctor` finds: the state of a server, its workers and the laws of the store, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import msgspec

Level = Literal["ok", "warning", "problem"]
MOST_SHOWN = 5


class Violation(msgspec.Struct, frozen=True):
    """A case in which a law of the store does not hold.

    Attributes:
        law: A word: `orphan_claim`, `dead_claim`, `broken_series`, `unlocked_queue`, `orphan_queue`, `nameless_task`,
            `ended_twice`, `id_not_given`, `invalid_index`, `stale_gates`, `cron_ahead`.
        job_id: The job; None if it is about something else.
        said: The rest of a sentence about it.
    """

    law: str
    job_id: int | None
    said: str


class Finding(msgspec.Struct, frozen=True):
    """The outcome of one check.

    Attributes:
        check: `server`, `workers`, `tasks`, `transactions` or `laws`.
        level: `ok`; `warning`: somebody should look at it; `problem`: something is broken.
        said: A sentence for people.
    """

    check: str
    level: Level
    said: str


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """How a database and its workers are.

    Attributes:
        up_since: When the server was started.
        in_recovery: Whether it is a standby, or recovers: nothing can be written.
        clock_moved: Whether a test has moved the clock of the schema.
        live: How many workers live.
        gone: How many dead workers were not removed yet.
        unknown_tasks: Tasks that no live worker knows, of the first thousand jobs that wait.
        holders: Transactions that are open for more than ten minutes, oldest first, five at most: dead rows that they
            may still see cannot be removed. What other roles do only a member of `pg_read_all_stats` sees.
        violations: Where the laws of the store do not hold.
    """

    up_since: datetime
    in_recovery: bool
    clock_moved: bool
    live: int
    gone: int
    unknown_tasks: tuple[str, ...]
    holders: tuple[str, ...]
    violations: tuple[Violation, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is broken; warnings are allowed."""
        return all(finding.level != "problem" for finding in self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The outcome of each check, at least one a check."""
        return (*self._of_server(), *self._of_workers(), *self._of_tasks(), *self._of_transactions(), *self._of_laws())

    def _of_server(self) -> Iterator[Finding]:
        if self.in_recovery:
            yield Finding("server", "problem", "it is a standby or recovers: no job can be added, and none can run")
        if self.clock_moved:
            yield Finding("server", "problem", "the clock of the schema was moved by a test; run `asyncq migrate`")
        if not self.in_recovery and not self.clock_moved:
            yield Finding("server", "ok", f"it is up since {self.up_since:%Y-%m-%d %H:%M:%S %Z}")

    def _of_workers(self) -> Iterator[Finding]:
        said = f"{self.live} live" + (f", {self.gone} dead ones are not removed yet" if self.gone else "")
        yield Finding("workers", "ok" if self.live else "warning", said)

    def _of_tasks(self) -> Iterator[Finding]:
        if self.unknown_tasks:
            yield Finding("tasks", "warning", f"no live worker knows: {', '.join(self.unknown_tasks)}")
        else:
            yield Finding("tasks", "ok", "a live worker knows the tasks of the jobs that wait")

    def _of_transactions(self) -> Iterator[Finding]:
        for holder in self.holders:
            yield Finding("transactions", "warning", f"dead rows cannot be removed because of {holder}")
        if not self.holders:
            yield Finding("transactions", "ok", "none is open for more than ten minutes")

    def _of_laws(self) -> Iterator[Finding]:
        for law in dict.fromkeys(violation.law for violation in self.violations):
            cases = [violation for violation in self.violations if violation.law == law]
            for case in cases[:MOST_SHOWN]:
                who = "" if case.job_id is None else f"job {case.job_id} "
                yield Finding("laws", "problem", f"{law}: {who}{case.said}")
            if cases[MOST_SHOWN:]:
                yield Finding("laws", "problem", f"{law}: and {len(cases) - MOST_SHOWN} more")
        if not self.violations:
            yield Finding("laws", "ok", "they hold")


class Repaired(msgspec.Struct, frozen=True):
    """What a repair has done.

    Attributes:
        job_ids: Jobs whose worker was gone: they can be fetched again, or have failed for good.
        gates: How many gates were removed that nobody had used for a day.
    """

    job_ids: tuple[int, ...]
    gates: int

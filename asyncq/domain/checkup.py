"""The findings of `doctor`: the state of the server, of the workers, and of the laws of the store."""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, assert_never

import msgspec

from asyncq.domain.pause import Pause
from asyncq.domain.sentence import allow_all_rows, command

Level = Literal["ok", "warning", "problem"]
HolderKind = Literal["transaction", "idle", "prepared", "standby", "slot"]
MOST_SHOWN = 5
MANY_DEAD = 100_000
MANY_WAKEUPS = 100_000
FULL_S = 3600.0
FEW_BLOCKS = 1_000
OFTEN = 10  # a warning begins at this multiple of the needed blocks
QUEUE_FILLS = 0.01  # of 8 GB; more remains in the queue only if a LISTEN connection is not read
QUEUE_IS_FULL = 0.5


class Violation(msgspec.Struct, frozen=True):
    """A case in which a law of the store is broken.

    Attributes:
        law: One of `orphan_claim`, `dead_claim`, `broken_series`, `shared_key`, `wrong_count`,
            `over_limit`, `stranded_partition`, `unmoved_job`, `nameless_task`, `ended_twice`, `batched_twice`,
            `id_not_given`, `invalid_index`, `stale_key_locks`, `cron_ahead`.
        job_id: The job; None if the case has no job.
        said: The rest of a sentence about it.
    """

    law: str
    job_id: int | None
    said: str


class Holder(msgspec.Struct, frozen=True):
    """A session or object that keeps dead rows from being removed, because it may still read them.

    Attributes:
        kind: `transaction`: a running one. `idle`: an open one whose client is idle. `prepared`: one that was prepared
            and neither committed nor rolled back. `standby`: one that reports the oldest snapshot of its queries
            (`hot_standby_feedback`). `slot`: a replication slot that keeps such a report.
        pid: The server's process; None if there is none.
        name: Its `application_name`, or the name of the prepared transaction or of the slot; None if it is hidden.
        owner: The role.
        state: The state of the process, such as `active` or `idle in transaction`; for a slot `active` or `inactive`.
            None if it is hidden.
        held_s: The time since it began; None if it is hidden or not known.
        xids: The number of transactions that began on the server since then.
    """

    kind: HolderKind
    pid: int | None
    name: str | None
    owner: str | None
    state: str | None
    held_s: float | None
    xids: int

    def __str__(self) -> str:
        """A phrase for people; without the name of the program if this role may not see it."""
        named = self.name or "name unknown"
        since = "" if self.held_s is None else f"for {self.held_s:,.0f} s, "
        age = f"{since}{self.xids:,} transactions old"
        match self.kind:
            case "transaction" | "idle":
                return f"process {self.pid} ({self.owner}, {named}), {self.state}, {age}"
            case "prepared":
                return f"the prepared transaction {named} ({self.owner}), {age}"
            case "standby":
                return f"the standby {named} with feedback, process {self.pid}, {age}"
            case "slot":
                return f"the replication slot {named} ({self.state}), {age}"
            case _:
                assert_never(self.kind)


class DeadRows(msgspec.Struct, frozen=True):
    """The rows of a table, by the server's statistics.

    Attributes:
        table: The name of the table.
        live: Visible rows.
        dead: Deleted or changed rows that were not removed yet.
        vacuumed_at: The time of the last vacuum; None if there was none.
    """

    table: str
    live: int
    dead: int
    vacuumed_at: datetime | None


class FirstJobs(msgspec.Struct, frozen=True):
    """The cost of reading the first waiting jobs, as a fetch does.

    Attributes:
        jobs: How many jobs were read.
        blocks: How many blocks of 8 KiB were read for them, in memory or not.
        took_s: How long it took.
    """

    jobs: int
    blocks: int
    took_s: float

    @property
    def needed(self) -> int:
        """About how many blocks suffice in a vacuumed table: one for each job, and the paths down two indexes."""
        return self.jobs + 20


class Finding(msgspec.Struct, frozen=True):
    """The outcome of one check.

    Attributes:
        check: `server`, `policies`, `workers`, `tasks`, `notifications`, `horizon`, `dead_rows`, `first_jobs`,
            `pauses`, `limits` or `laws`.
        level: `ok`; `warning`: somebody should look at it; `problem`: something is broken.
        said: A sentence for people.
    """

    check: str
    level: Level
    said: str


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a database and its workers.

    Attributes:
        schema: The name of the schema.
        up_since: When the server was started.
        in_recovery: Whether it is a standby, or in recovery: nothing can be written.
        clock_moved: Whether a test has moved the clock of the schema.
        secured: The tables that have row level security, which may hide jobs from other roles.
        live: How many workers live.
        gone: How many dead workers were not removed yet.
        unknown_tasks: Tasks of the first thousand waiting jobs that no live worker knows.
        notifications: How full the server's notification queue is, from 0 to 1; if it is full, every NOTIFY fails.
        holders: The oldest five that keep dead rows for more than a minute, or for 100,000 transactions if the time is
            not known; the oldest one first.
        sees_all: Whether this role sees other sessions, as a member of `pg_read_all_stats` or `pg_monitor`.
        dead_rows: The rows of each table; the table with most dead rows first.
        first_jobs: The cost of reading the first waiting jobs.
        violations: The broken laws of the store.
        pauses: What has been paused for more than a day.
        wakeups: How many wakeups of partitions wait, counted to a bit more than 100,000.
        full_keys: Keys of limits, and queues, that are full and have waiting jobs, and of which no job has started for
            an hour: each as the limit and the key; five at most.
        missing: The features that asyncq needs and the server lacks, each as a phrase.
        limits: The features that work less well on this server than on PostgreSQL, each as a sentence.
        is_read_only: Whether the server refuses writes, as on a standby or with `default_transaction_read_only`.
    """

    schema: str
    up_since: datetime
    in_recovery: bool
    clock_moved: bool
    secured: tuple[str, ...] = ()
    live: int
    gone: int
    unknown_tasks: tuple[str, ...]
    notifications: float = 0.0
    holders: tuple[Holder, ...]
    sees_all: bool
    dead_rows: tuple[DeadRows, ...]
    first_jobs: FirstJobs
    violations: tuple[Violation, ...]
    pauses: tuple[Pause, ...] = ()
    wakeups: int = 0
    full_keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    is_read_only: bool = False

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is broken; warnings are allowed."""
        return all(finding.level != "problem" for finding in self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The outcome of all checks, at least one for each check."""
        return (
            *self._of_server(),
            *self._of_policies(),
            *self._of_workers(),
            *self._of_tasks(),
            *self._of_notifications(),
            *self._of_horizon(),
            *self._of_dead_rows(),
            *self._of_first_jobs(),
            *self._of_pauses(),
            *self._of_limits(),
            *self._of_laws(),
        )

    def _of_server(self) -> Iterator[Finding]:
        if self.in_recovery:
            yield Finding("server", "problem", "it is a standby or in recovery: no job can be added, and none can run")
        if self.clock_moved:
            mend = command("migrate", self.schema)
            yield Finding("server", "problem", f"the clock of the schema was moved by a test; run `{mend}`")
        if self.is_read_only and not self.in_recovery:
            yield Finding("server", "problem", "it is read only (default_transaction_read_only): no job can be added")
        for missing in self.missing:
            yield Finding("server", "problem", f"it lacks features that asyncq needs: {missing}")
        for limit in self.limits:
            yield Finding("server", "warning", limit)
        if not (self.in_recovery or self.clock_moved or self.is_read_only or self.missing or self.limits):
            yield Finding("server", "ok", f"it is up since {self.up_since:%Y-%m-%d %H:%M:%S %Z}")

    def _of_policies(self) -> Iterator[Finding]:
        if self.secured:
            mend = allow_all_rows(self.schema, self.secured)
            said = "row level security hides jobs from every role but the owner"
            yield Finding("policies", "problem", f"{said}; {mend}")
        else:
            yield Finding("policies", "ok", "no table has row level security")

    def _of_workers(self) -> Iterator[Finding]:
        said = f"{self.live} live" + (f", {self.gone} dead ones are not removed yet" if self.gone else "")
        yield Finding("workers", "ok" if self.live else "warning", said)

    def _of_tasks(self) -> Iterator[Finding]:
        if self.unknown_tasks:
            yield Finding("tasks", "warning", f"no live worker knows: {', '.join(self.unknown_tasks)}")
        else:
            yield Finding("tasks", "ok", "live workers know the tasks of all waiting jobs")

    def _of_notifications(self) -> Iterator[Finding]:
        said = f"the server's notification queue is {self.notifications:.1%} full"
        if self.notifications < QUEUE_FILLS:
            yield Finding("notifications", "ok", said)
        else:
            level: Level = "problem" if self.notifications >= QUEUE_IS_FULL else "warning"
            why = "a LISTEN connection to this server is not read, or in a long transaction; at 100% every add fails"
            yield Finding("notifications", level, f"{said}: {why}")

    def _of_horizon(self) -> Iterator[Finding]:
        for holder in self.holders:
            yield Finding("horizon", "warning", f"dead rows cannot be removed because of {holder}")
        hidden = "" if self.sees_all else "what other roles do is hidden: grant pg_read_all_stats to see it"
        if not self.holders:
            who = f"nobody{' of this role' if hidden else ''} has kept dead rows from being removed for a minute"
            yield Finding("horizon", "ok", f"{who}; {hidden}" if hidden else who)
        elif hidden:
            yield Finding("horizon", "warning", hidden)

    def _of_dead_rows(self) -> Iterator[Finding]:
        bloated = [one for one in self.dead_rows if one.dead >= MANY_DEAD and one.dead > one.live]
        for one in bloated:
            at = "never vacuumed" if one.vacuumed_at is None else f"vacuumed at {one.vacuumed_at:%Y-%m-%d %H:%M:%S %Z}"
            said = f"{one.table} has {one.dead:,} dead rows beside {one.live:,} live ones; it was {at}"
            hint = "" if self.holders else ": is autovacuum on, and fast enough?"
            yield Finding("dead_rows", "warning", said + hint)
        if not bloated:
            most = next(iter(self.dead_rows), None)
            said = "no table was counted yet" if most is None else f"{most.dead:,} at most, in {most.table}"
            yield Finding("dead_rows", "ok", said)

    def _of_first_jobs(self) -> Iterator[Finding]:
        found = self.first_jobs
        said = f"{found.blocks:,} blocks and {found.took_s * 1000:.1f} ms to look at the first {found.jobs}"
        if found.blocks >= FEW_BLOCKS and found.blocks > OFTEN * found.needed:
            said += f"; {found.needed:,} blocks would suffice: fetches read dead rows"
            yield Finding("first_jobs", "warning", said)
        else:
            yield Finding("first_jobs", "ok", said)

    def _of_pauses(self) -> Iterator[Finding]:
        for pause in self.pauses:
            why = "" if pause.reason is None else f": {pause.reason}"
            said = f"{pause} is paused since {pause.paused_at:%Y-%m-%d %H:%M:%S %Z} by {pause.paused_by}{why}"
            yield Finding("pauses", "warning", said)
        if not self.pauses:
            yield Finding("pauses", "ok", "nothing has been paused for more than a day")

    def _of_limits(self) -> Iterator[Finding]:
        for key in self.full_keys:
            said = f"{key} is full, and no job of it has started for an hour: do its running jobs hang?"
            yield Finding("limits", "warning", said)
        if self.wakeups > MANY_WAKEUPS:
            said = f"more than {MANY_WAKEUPS:,} wakeups of queues and limits wait: do workers run, and know the tasks?"
            yield Finding("limits", "warning", said)
        if not self.full_keys and self.wakeups <= MANY_WAKEUPS:
            yield Finding("limits", "ok", "no queue or key of a limit has been full for an hour without a start")

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
    """The result of a repair.

    Attributes:
        job_ids: Returned jobs of workers that were gone: they wait again, or were discarded.
        key_locks: How many key locks were removed, all unused for a day.
        partitions: How many keys of limits and queues counted a wrong number of running jobs, or had lost a wakeup.
    """

    job_ids: tuple[int, ...]
    key_locks: int
    partitions: int = 0

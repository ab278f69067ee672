"""Workers in the database: they send beats, and rescue the jobs of dead workers. Leases use the real clock."""

from collections.abc import Collection, Sequence

import msgspec

from asyncq.domain.declaration import Declaration
from asyncq.domain.errors import ConfigurationError
from asyncq.domain.limit_info import Kind, LimitValues, phrase
from asyncq.domain.sentence import command
from asyncq.store.arrays import array_text
from asyncq.store.database import ReconnectingConnection, Record

# The running jobs of a worker that were cancelled, as (id, lock token); None if a rescue declared the worker dead.
Cancelled = list[tuple[int, int]] | None

_read_values = msgspec.json.Decoder(LimitValues).decode

REAL_CLOCK = {"select pg_catalog.now()", "select pg_catalog.clock_timestamp()"}


class Rescued(msgspec.Struct, frozen=True):
    """A job that was returned for a dead worker; if it `ran` for certain, `attempts` has this attempt too."""

    job_id: int
    worker_id: int
    attempts: int
    max_attempts: int
    ran: bool


async def set_forbidden_flags(
    line: ReconnectingConnection, worker_id: int, forbidden_flags: Sequence[str] | None
) -> None:
    """Store the flags that a worker forbids from its next fetch on; `explain` reads them."""
    await line.fetch("set_forbidden_flags", worker_id, forbidden_flags)


async def beat(line: ReconnectingConnection, worker_id: int, named: Sequence[str], stuck: Sequence[int]) -> Cancelled:
    """Send a beat on any connection, and read cancellations that the worker may have missed.

    The connection lacks the worker's lock: from now on only its lease counts. `named` are claims that have started,
    each as `job/token`, `stuck` are jobs whose handlers ignore that they were cancelled.
    """
    holds = False
    return cancelled_jobs(await line.fetch("beat", worker_id, holds, list(named), array_text(stuck)))


def cancelled_jobs(rows: Sequence[Record]) -> Cancelled:
    """Read the rows of a beat."""
    if not rows:
        return None
    return [(row["job_id"], row["lock_token"]) for row in rows if row["job_id"] is not None]


async def is_known(line: ReconnectingConnection, worker_id: int) -> bool:
    """Return whether the worker exists: no rescue has declared it dead."""
    (row,) = await line.fetch("find_worker", worker_id)
    return row["found"] == "known"


async def remove(line: ReconnectingConnection, worker_id: int) -> None:
    """Remove a worker that holds no claim."""
    await line.fetch("remove_worker", worker_id)


async def rescue_jobs(line: ReconnectingConnection, *, thorough: bool, keeps_errors: bool = True) -> list[Rescued]:
    """Return the jobs of dead workers; `thorough` also finds claims of workers without a row, among all claims.

    `keeps_errors` says whether each lost attempt is recorded.
    """
    rows = await line.fetch("rescue_jobs", thorough, keeps_errors)
    return [Rescued(*row) for row in rows]


class Corrected(msgspec.Struct, frozen=True):
    """A limit or queue, or a key of the limit, that had counted another number of running jobs than run."""

    name: str | None
    key: str | None
    counted: int
    running: int


async def correct_counts(line: ReconnectingConnection) -> list[Corrected]:
    """Set right how many running jobs partitions count, and return the corrected ones; reads all claims."""
    return [Corrected(*row) for row in await line.fetch("correct_counts")]


async def pass_on_ends(line: ReconnectingConnection) -> None:
    """Count ends for which a fetch of another task should look, and wake their partitions."""
    await line.fetch("pass_on_ends")


async def task_ids(line: ReconnectingConnection, names: Collection[str]) -> dict[int, str]:
    """Read the ids of tasks, and store new ones; without tasks that another open transaction has just stored."""
    rows = await line.fetch("task_ids", sorted(names))
    return {row["id"]: row["identifier"] for row in rows}


class KeptTask(msgspec.Struct, frozen=True):
    """For how many seconds the ended jobs of a task are kept, None for not at all; and whether with their payloads."""

    id: int
    keep_s: float | None
    keeps_payload: bool


async def keep_tasks(line: ReconnectingConnection, kept: Sequence[KeptTask]) -> set[int]:
    """Store how long ended jobs of tasks are kept; returns the tasks whose rows are locked, which it leaves."""
    return {row["id"] for row in await line.fetch("keep_tasks", msgspec.json.encode(kept).decode())}


class ChangedLimit(msgspec.Struct, frozen=True):
    """A limit that the last worker had declared with other values."""

    name: str
    before: str
    after: str
    was_by: str


class Declared(msgspec.Struct, frozen=True):
    """Which limits another declaration had changed, and which tasks still lack theirs: their rows are locked."""

    changed: list[ChangedLimit]
    late: set[str]


async def declare_limits(line: ReconnectingConnection, declaration: Declaration, by: str) -> Declared:
    """Store the limits of a worker; `by` is its name."""
    rows = await line.fetch("declare_limits", msgspec.json.encode(declaration).decode(), by)
    changed: list[ChangedLimit] = []
    for row in rows:
        if row["kind"] != "task":
            before, after = (_said(row["kind"], row[values]) for values in ("before", "after"))
            changed.append(ChangedLimit(row["name"], before, after, row["was_by"]))
    return Declared(changed, {row["name"] for row in rows if row["kind"] == "task"})


def _said(kind: Kind, values: str) -> str:
    return phrase(_read_values(values), kind)


async def held_back(line: ReconnectingConnection, ids: Collection[int]) -> dict[str, int]:
    """How many due jobs of these tasks a limit, a rate or a pause holds back, by the names of the tasks."""
    return {row["identifier"]: row["jobs"] for row in await line.fetch("held_back", array_text(ids))}


async def unknown_tasks(line: ReconnectingConnection, ids: Collection[int]) -> list[str]:
    """Read the names of other tasks that have a waiting job."""
    return [row["identifier"] for row in await line.fetch("unknown_tasks", array_text(ids))]


async def wake_workers(line: ReconnectingConnection) -> None:
    """Notify all listening workers, so that they fetch."""
    await line.fetch("wake_workers")


async def check_clock(line: ReconnectingConnection, schema: str) -> None:
    """Raise ConfigurationError if a test has moved the schema's clock."""
    rows = await line.fetch("clock_functions")
    if {row["source"] for row in rows} != REAL_CLOCK:
        raise ConfigurationError(
            f"the clock of schema {schema!r} was moved by asyncq.testing; in a test, make the worker with "
            f"asyncq.testing; else run `{command('migrate', schema)}` to put it right"
        )


async def write_stats(line: ReconnectingConnection, counted: str, worker_id: int) -> None:
    """Add the numbers of a worker, as JSON, to those of this minute."""
    await line.fetch("write_stats", counted, worker_id)

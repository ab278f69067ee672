"""The statements of `doctor`: its questions to the database, and its repairs."""

import msgspec

from asyncq.domain.checkup import FULL_S, MOST_SHOWN, Checkup, DeadRows, FirstJobs, Holder, Repaired, Violation
from asyncq.store.arrays import array_text
from asyncq.store.database import Connection, Database
from asyncq.store.failures import calling
from asyncq.store.pauses import paused
from asyncq.store.policies import secured_tables
from asyncq.store.probe import probe
from asyncq.store.pruning import FIRST_KEY_LOCK
from asyncq.store.workers import REAL_CLOCK

HELD_S = 60.0  # a transaction that blocks VACUUM for longer is reported
HELD_XIDS = 100_000  # the same in transactions, where the time is not known
MOST_HOLDERS = 5
FIRST_JOBS = 100
LONG_PAUSED_S = 86_400.0
KEY_LOCKS_AT_ONCE = 1000
THOROUGH = True  # look also for claims whose worker has no row
KEEPS_ERRORS = True


class _Node(msgspec.Struct):
    rows: float = msgspec.field(name="Actual Rows")
    hit: int = msgspec.field(name="Shared Hit Blocks")
    read: int = msgspec.field(name="Shared Read Blocks")


class _Plan(msgspec.Struct):
    root: _Node = msgspec.field(name="Plan")
    took_ms: float = msgspec.field(name="Execution Time")


_plans = msgspec.json.Decoder(list[_Plan])


async def checkup(database: Database, connection: Connection) -> Checkup:
    """Look at everything; changes nothing."""
    probed = await probe(database, connection, hears=True)
    (found,) = await database.fetch(connection, "checkup")
    holders = await database.fetch(connection, "holders", HELD_S, HELD_XIDS, MOST_HOLDERS)
    unknown = await database.fetch(connection, "unknown_tasks", array_text(found["known_tasks"]))
    clock = await database.fetch(connection, "clock_functions")
    (limits,) = await database.fetch(connection, "limit_warnings", FULL_S, MOST_SHOWN)
    return Checkup(
        schema=database.schema,
        up_since=found["up_since"],
        in_recovery=found["in_recovery"],
        clock_moved={row["source"] for row in clock} != REAL_CLOCK,
        secured=tuple(await secured_tables(database, connection)),
        live=found["live"],
        gone=found["gone"],
        notifications=found["notifications"] or 0.0,
        unknown_tasks=tuple(row["identifier"] for row in unknown),
        holders=tuple(Holder(*row) for row in holders),
        sees_all=found["sees_all"],
        dead_rows=tuple(await dead_rows(database, connection)),
        first_jobs=await first_jobs(database, connection),
        violations=tuple(await violations(database, connection)),
        pauses=tuple(await paused(database, connection, LONG_PAUSED_S)),
        wakeups=limits["wakeups"],
        full_keys=tuple(limits["full_keys"]),
        missing=probed.missing,
        limits=probed.limits,
        is_read_only=probed.is_read_only,
    )


async def dead_rows(database: Database, connection: Connection) -> list[DeadRows]:
    """Return the rows of each table as the server has counted them."""
    return [DeadRows(*row) for row in await database.fetch(connection, "dead_rows")]


async def first_jobs(database: Database, connection: Connection) -> FirstJobs:
    """Let the server measure the cost of finding the first waiting jobs; claims none of them."""
    statement = database.query("first_jobs")
    with calling(database.schema):
        text = await connection.fetchval("explain (analyze, buffers, format json)\n" + statement, FIRST_JOBS)
    plan, *_ = _plans.decode(text)
    return FirstJobs(round(plan.root.rows), plan.root.hit + plan.root.read, plan.took_ms / 1000)


async def violations(database: Database, connection: Connection) -> list[Violation]:
    """Return the rows that break a rule of the store."""
    return [Violation(*row) for row in await database.fetch(connection, "violations")]


async def repair(database: Database, connection: Connection) -> Repaired:
    """Rescue the jobs of dead workers and remove unused key locks, as workers do."""
    key_locks = 0
    after: int | None = FIRST_KEY_LOCK
    partitions = len(await database.fetch(connection, "correct_counts"))
    jobs = await database.fetch(connection, "rescue_jobs", THOROUGH, KEEPS_ERRORS)
    ((woken,),) = await database.fetch(connection, "wake_stranded")
    while after is not None:
        (walked,) = await database.fetch(connection, "prune_key_locks", after, KEY_LOCKS_AT_ONCE)
        key_locks, after = key_locks + walked["key_locks"], walked["last_key"]
    return Repaired(tuple(sorted(row["job_id"] for row in jobs)), key_locks, partitions + woken)

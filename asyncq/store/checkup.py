"""Looks after a store: what `doctor` asks of the database, and what it may repair."""

from __future__ import annotations

from asyncq.domain.checkup import Checkup, Repaired, Violation
from asyncq.store.database import Connection, Database
from asyncq.store.failures import calling
from asyncq.store.pruning import FIRST_GATE
from asyncq.store.workers import DOORS_SHUT

OPEN_FOR_S = 600.0  # longer transactions are told of
GATES_AT_ONCE = 1000
THOROUGH = True  # also claims whose worker has no row


async def checkup(database: Database, connection: Connection) -> Checkup:
    """Look at everything; changes nothing."""
    with calling(database.schema):
        (found,) = await connection.fetch(database.query("checkup"), OPEN_FOR_S)
        unknown = await connection.fetch(database.query("unknown_tasks"), found["known_tasks"])
        doors = await connection.fetch(database.query("clock_doors"))
    return Checkup(
        up_since=found["up_since"],
        in_recovery=found["in_recovery"],
        clock_moved={row["source"] for row in doors} != DOORS_SHUT,
        live=found["live"],
        gone=found["gone"],
        unknown_tasks=tuple(row["identifier"] for row in unknown),
        holders=tuple(found["holders"]),
        violations=tuple(await violations(database, connection)),
    )


async def violations(database: Database, connection: Connection) -> list[Violation]:
    """Where the laws of the store do not hold."""
    with calling(database.schema):
        rows = await connection.fetch(database.query("violations"))
    return [Violation(*row) for row in rows]


async def repair(database: Database, connection: Connection) -> Repaired:
    """Return the jobs of workers that are gone, and remove gates that are not used; both as workers do it."""
    gates = 0
    after: int | None = FIRST_GATE
    with calling(database.schema):
        jobs = await connection.fetch(database.query("rescue_jobs"), THOROUGH)
        while after is not None:
            walked = (await connection.fetch(database.query("prune_gates"), after, GATES_AT_ONCE))[0]
            gates, after = gates + walked["gates"], walked["last_key"]
    return Repaired(tuple(sorted(row["job_id"] for row in jobs)), gates)

"""Reads and writes the steps of jobs. A step is written only while the claim of its run exists."""

from asyncq.domain.job import Claim
from asyncq.store.database import Connection, Database


async def read_steps(database: Database, connection: Connection, job_id: int) -> dict[str, str]:
    """Read the steps of a job that earlier runs have done: name -> its result as it is stored."""
    return {row["name"]: row["result"] for row in await database.fetch(connection, "steps", job_id)}


async def store_step(
    database: Database, connection: Connection, worker_id: int, claim: Claim, name: str, result: str
) -> bool:
    """Store a step in the transaction of the connection, which must be READ COMMITTED.

    Returns False if the claim has ended; then nothing was written.
    """
    ((stored,),) = await database.fetch(connection, "store_step", worker_id, claim.id, claim.token, name, result)
    return stored

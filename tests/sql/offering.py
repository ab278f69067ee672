"""A worker that offers to take a job, and adds that may take the offer, in SQL."""

from typing import Any

from asyncq.store.arrays import array_text
from tests.sql.session import Session

CHANNEL = "asyncq:secret"
FIRST = 11
AT_ONCE = HOLD = True
BARE: dict[str, Any] = {"payload": "{}", "queue": None, "run_at": None, "flags": None, "meta": None}


async def register(sql: Session) -> int:
    """A worker that lives. Its id."""
    ((worker, _),) = await sql.run("register_worker", 30.0, 1, 10, "host", ["t"], 0)
    await sql.execute("select asyncq._store_tasks('{t,u}')")
    return worker


async def offering(sql: Session, token: int, *, worker: int = 0, packs: bool = True) -> int:
    """A worker that offers to take a job of task t, in a batch or not. Its id."""
    worker = worker or await register(sql)
    known = await sql.values("select id from asyncq._tasks where identifier = 't'")
    tasks, packable = array_text(known), array_text(known if packs else ())
    ((is_made,),) = await sql.run("make_offer", worker, token, 0, tasks, CHANNEL, HOLD, packable)
    assert is_made
    return worker


async def add_at_once(sql: Session, task: str = "t", **options: Any) -> int | None:
    """Add a job on a connection that commits at once."""
    given = BARE | options
    ((job_id,),) = await sql.run(
        "add_keyless_job",
        *(task, given["payload"], given["queue"], given["run_at"], None, None, given["flags"], given["meta"], AT_ONCE),
    )
    return job_id


async def holders(sql: Session) -> list[int | None]:
    """By which token each job is claimed."""
    return await sql.values("select lock_token from asyncq._all_jobs() order by id")

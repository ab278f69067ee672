"""A worker that offers to take a job, and adds that may take the offer, in SQL."""

from typing import Any

from asyncq.store.arrays import array_text
from tests.sql.session import Session
from tests.waiting import wait_until

CHANNEL = "asyncq:secret"
FIRST = 11
AT_ONCE = HOLD = True
BARE: dict[str, Any] = {"payload": "{}", "queue": None, "run_at": None, "flags": None, "meta": None}


async def register(sql: Session) -> int:
    """A worker that lives. Its id."""
    ((worker, _),) = await sql.run("register_worker", 30.0, 1, 10, "host", ["t"], 0)
    await sql.execute("select asyncq._store_tasks('{t,u}')")
    return worker


async def offering(sql: Session, token: int, *, worker: int = 0) -> int:
    """A worker that offers to take a job of task t. Its id."""
    worker = worker or await register(sql)
    known = await sql.values("select id from asyncq._tasks where identifier = 't'")
    ((is_made,),) = await sql.run("make_offer", worker, token, 0, array_text(known), CHANNEL, HOLD)
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
    return await sql.values("select lock_token from asyncq._jobs order by id")


async def leave_versions(sql: Session) -> None:
    """More dead rows than an add should walk over: those of an insert that fails, as its workers do not exist."""
    await sql.refusal("insert into asyncq._offers (worker_id) select -number from generate_series(1, 100001) as number")
    await wait_until(
        lambda: sql.value("select pg_stat_get_dead_tuples('asyncq._offers'::regclass) > 100000"),
        description="the server to have counted them",
    )

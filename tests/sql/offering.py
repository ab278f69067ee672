"""A worker that offers to take a job, and adds that may take the offer, in SQL."""

from typing import Any

from asyncq.store.arrays import array_text
from tests.sql.session import Session
from tests.waiting import wait_until

CHANNEL = "asyncq:secret"
FIRST = 11
AT_ONCE = HOLD = True
# The one offer: its token, and whether it is taken.
OFFER = """select offer.token, offer.token is not null and not exists (
  select from asyncq._batches as batch
  where batch.locked_by = offer.worker_id and batch.lock_token = offer.token and batch.ids = '{}')
from asyncq._offers as offer"""
# How many offers stand.
STANDING = """select count(*) from asyncq._offers as offer join asyncq._batches as batch
on batch.locked_by = offer.worker_id and batch.lock_token = offer.token and batch.ids = '{}'"""
# The last number fails: no worker with the first one exists, and a batch has to have a token.
VERSIONS = {
    "_offers": "insert into asyncq._offers (worker_id) select -number",
    "_batches": """
        insert into asyncq._batches
            (lock_token, locked_at, locked_by, open, ids, run_at, created_at, task_id, priority, max_attempts, payload)
        select nullif(number, 100001), now(), -1, '', '{}', '{}', '{}', '{}', '{}', '{}', '{}'""",
}
# In the order of the statement's parameters.
BARE: dict[str, Any] = {
    "payload": "{}",
    "queue": None,
    "run_at": None,
    "max_attempts": None,
    "priority": None,
    "flags": None,
    "meta": None,
}


async def register(sql: Session) -> int:
    """A worker that lives. Its id."""
    ((worker, _),) = await sql.run("register_worker", 30.0, 1, 10, "host", ["t"], 0)
    await sql.execute("select asyncq._store_tasks('{t,u}')")
    return worker


async def offering(
    sql: Session, token: int, *, worker: int = 0, packs: bool = True, task: str = "t", channel: str = CHANNEL
) -> int:
    """A worker that offers to take a job of a task, in a batch if it packs. Its id."""
    worker = worker or await register(sql)
    known = await sql.values("select id from asyncq._tasks where identifier = $1", task)
    packable = array_text(known if packs else [])
    ((is_made,),) = await sql.run("make_offer", worker, token, 0, array_text(known), packable, channel, HOLD)
    assert is_made
    return worker


async def add_at_once(sql: Session, task: str = "t", **options: Any) -> int | None:
    """Add a job on a connection that commits at once."""
    given = BARE | options
    ((job_id,),) = await sql.run("add_keyless_job", task, *given.values(), AT_ONCE)
    return job_id


async def holders(sql: Session) -> list[int | None]:
    """By which token each job is claimed."""
    return await sql.values("select lock_token from asyncq._all_jobs() order by id")


async def leave_versions(sql: Session, table: str = "_offers") -> None:
    """More dead rows than an add should walk over: those of an insert that fails at its end."""
    await sql.refusal(VERSIONS[table] + " from generate_series(0, 100001) as number")
    await wait_until(
        lambda: sql.value(f"select pg_stat_get_dead_tuples('asyncq.{table}'::regclass) > 100000"),
        description="the server to have counted them",
    )

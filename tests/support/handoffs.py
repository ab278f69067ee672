"""A worker that has a slot open, and adds that may take the slot, in SQL."""

from asyncq.store.arrays import array_text
from tests.support.session import Session
from tests.support.waiting import wait_until

CHANNEL = "asyncq:secret"
FIRST = 11
HOLD = CHECKS = True
# The one slot: its token, and whether it is taken.
SLOT = """select slot.token, slot.token is not null and not exists (
  select from asyncq._batches as batch
  where batch.locked_by = slot.worker_id and batch.lock_token = slot.token and batch.ids = '{}')
from asyncq._handoff_slots as slot"""
# How many slots are open.
OPEN_SLOTS = """select count(*) from asyncq._handoff_slots as slot join asyncq._batches as batch
on batch.locked_by = slot.worker_id and batch.lock_token = slot.token and batch.ids = '{}'"""
# Of a job that a client awaits: its channel.
EXTRAS = f'{{"watchers": ["asyncq:{"0" * 32}"]}}'
# The last number fails: no worker with the first one exists, and a batch has to have a token.
VERSIONS = {
    "_handoff_slots": "insert into asyncq._handoff_slots (worker_id) select -number",
    "_batches": """
        insert into asyncq._batches (lock_token, locked_at, locked_by, unsettled, ids, run_at, created_at, task_id,
          priority, max_attempts, payload)
        select nullif(number, 100001), now(), -1, '', '{}', '{}', '{}', '{}', '{}', '{}', '{}'""",
}


async def register(sql: Session) -> int:
    """A worker that lives. Its id."""
    ((worker, _),) = await sql.run("register_worker", 30.0, 1, 10, "host", ["t"], 0, None, [])
    await sql.execute("select asyncq._store_tasks('{t,u}')")
    return worker


async def open_slot(sql: Session, token: int, *, worker: int = 0, task: str = "t", channel: str = CHANNEL) -> int:
    """A worker that has a slot open. Its id."""
    worker = worker or await register(sql)
    known = array_text(await sql.values("select id from asyncq._tasks where identifier = $1", task))
    ((is_made,),) = await sql.run("open_slot", worker, token, 0, known, known, channel, HOLD)
    assert is_made
    return worker


async def fill(
    sql: Session, task: str = "t", payload: str = "{}", max_attempts: int | None = None, priority: int | None = None
) -> int | None:
    """Add a job for a worker that waits; its id, or None if none does."""
    rows = await sql.run("fill_slot", task, payload, max_attempts, priority)
    return rows[0]["id"] if rows else None


async def fill_awaited(
    sql: Session, task: str = "t", payload: str = "{}", max_attempts: int | None = None, priority: int | None = None
) -> int | None:
    """As `fill`, for a job that its client awaits."""
    rows = await sql.run("fill_slot_awaited", task, payload, max_attempts, priority, EXTRAS)
    return rows[0]["id"] if rows else None


async def insert(
    sql: Session,
    task: str = "t",
    payload: str = "{}",
    max_attempts: int | None = None,
    priority: int | None = None,
    *,
    looks: bool = not CHECKS,
) -> int | None:
    """Add a job for anybody; its id, or None if it was not added."""
    rows = await sql.run("insert_job", task, payload, max_attempts, priority, looks)
    return rows[0]["id"] if rows else None


async def add_plain(sql: Session, task: str = "t") -> int | None:
    """Add a job as a client does that expects a worker to wait for it; its id, or None if the task is not stored."""
    return await fill(sql, task) or await insert(sql, task)


async def holders(sql: Session) -> list[int | None]:
    """The token of each job's claim."""
    return await sql.values("select lock_token from asyncq._all_jobs() order by id")


async def leave_versions(sql: Session, table: str = "_handoff_slots") -> None:
    """More dead rows than an add should walk over: those of an insert that fails at its end."""
    await sql.refusal(VERSIONS[table] + " from generate_series(0, 100001) as number")
    await wait_until(
        lambda: sql.value(f"select pg_stat_get_dead_tuples('asyncq.{table}'::regclass) > 100000"),
        description="the server to have counted them",
    )

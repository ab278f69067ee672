"""However many jobs are paused, a fetch of a worker reads about as much as if there were none."""

import json

import pytest

from asyncq.store.arrays import array_text
from asyncq.store.statements import query
from tests.support.jobs import add
from tests.support.session import Session

MANY = 10_000
PAGES = 60
FAST = "set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = off"
# One wakeup for each, as if they had been added one by one.
STORE = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, partition, queue, payload)
  select now(), now(), now(), task.id, {partition}, {queue}, '{{}}'
  from asyncq._tasks as task, generate_series(1, {many}) as i where task.identifier = 't';
insert into asyncq._wakeups (at, partition, task_id, priority)
  select run_at, partition, task_id, priority from asyncq._jobs where partition is not null
"""


async def pages_of_a_fetch(sql: Session, name: str) -> tuple[int, int]:
    """How many pages a fetch of ten jobs reads, and how many rows its widest node passes on; it claims nothing."""
    ids = await sql.values("select id from asyncq._tasks")
    transaction = sql.connection.transaction()
    await transaction.start()
    text = "explain (analyze, buffers, format json) " + query(name, sql.schema)
    last = False if name == "fetch_jobs" else None
    (told,) = await sql.connection.fetch(text, 1, 77, 10, array_text(ids), *[None] * 6, 100, "{}", last)
    await transaction.rollback()
    (found,) = json.loads(told[0])
    return found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"], _rows(found["Plan"])


def _rows(node: dict[str, object]) -> int:
    """The rows that the widest node of a plan has read."""
    rows = int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])  # type: ignore[operator]
    return max([rows, *map(_rows, node.get("Plans", []))])  # type: ignore[call-overload]


@pytest.mark.parametrize("what", ["task", "moved task", "limit", "queue", "everything"])
async def test_a_fetch_does_not_read_paused_jobs(own: Session, what: str) -> None:
    """The jobs of a task that had no limit are moved first: until then fetches read over them."""
    await own.execute(FAST)
    await own.rows("select asyncq._store_tasks('{t,other}')")
    named = {"limit": "limit_name => 'tenants'", "queue": "queue => 'q'", "everything": ""}.get(what, "task => 't'")
    if what == "limit":
        await own.execute("insert into asyncq._limits (id, name, at_once) values (9, 'tenants', 1)")
        await own.execute("update asyncq._tasks set limit_id = 9 where identifier = 't'")
    partition = {
        "task": "asyncq._partition(1::smallint, 'q' || i % 10000)",
        "limit": "asyncq._partition(9::smallint, (i % 10000)::text)",
        "queue": "asyncq._partition(1::smallint, 'q')",
    }.get(what, "null::bigint")
    queue = {"task": "'q' || i % 10000", "queue": "'q'"}.get(what, "null")
    await own.execute(STORE.format(partition=partition, queue=queue, many=MANY))
    await own.rows(f"select asyncq.pause({named})")
    if what == "moved task":
        await own.rows("select * from asyncq._move_jobs(0, 1000000)")
    if what == "queue":
        # A fetch deletes the wakeups of a paused queue, 5,000 at a time.
        await own.execute("delete from asyncq._wakeups where ctid <> all(array(select min(ctid) from asyncq._wakeups))")
    await own.execute("vacuum analyze asyncq._jobs")
    await own.execute("vacuum analyze asyncq._wakeups")
    await add(own, "other")
    for name in ("fetch_jobs", "fetch_partitions"):
        pages, rows = await pages_of_a_fetch(own, name)

        assert pages < PAGES, name
        assert rows < PAGES, name

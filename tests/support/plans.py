"""How many rows a statement reads, and tables in which a scan would be noticed."""

from collections.abc import Awaitable

from tests.support.session import Session

ROWS = 20_000
TABLES = ("_jobs", "_key_locks", "_tasks", "_ended_jobs", "_requests", "_steps")

# Half of the jobs have a key; a fifth of all run, a seventh are discarded. Each has done a step.
FILL = f"""
insert into asyncq._jobs
  (run_at, created_at, updated_at, task_id, key, payload, attempts, locked_by, locked_at, lock_token)
select now() + interval '1 h', now(), now(), (select id from asyncq._tasks where identifier = 't'),
  case when i <= {ROWS // 2} then 'k' || i end, '{{}}', case when i % 7 = 0 then 25 else 0 end,
  case when i % 5 = 0 then 1 end, case when i % 5 = 0 then now() end, case when i % 5 = 0 then 1 end
from generate_series(1, {ROWS}) as i;
insert into asyncq._key_locks select hashtextextended('key:k' || i, 0) from generate_series(1, {ROWS // 2}) as i
  on conflict do nothing;
insert into asyncq._tasks (identifier) select 'some' || i from generate_series(1, {ROWS}) as i;
insert into asyncq._steps select id, now(), 's', '1' from asyncq._jobs;
"""
STATS = """
select relname as table, seq_scan::int as scans, (coalesce(idx_tup_fetch, 0) + seq_tup_read)::int as rows
from pg_catalog.pg_stat_xact_user_tables
where schemaname = 'asyncq' and relname = any($1::text[])
"""


async def cost(sql: Session, call: Awaitable[object]) -> dict[str, tuple[int, int]]:
    """Run a call, and roll back. Returns for each table how often it was scanned, and how many rows were read."""
    transaction = sql.connection.transaction()
    await transaction.start()
    # Statistics of earlier transactions that the server has not gathered yet are counted too.
    before = {row["table"]: row for row in await sql.rows(STATS, TABLES)}
    await call
    after = {row["table"]: row for row in await sql.rows(STATS, TABLES)}
    await transaction.rollback()
    return {
        name: (row["scans"] - before[name]["scans"], row["rows"] - before[name]["rows"]) for name, row in after.items()
    }

"""Checks the store during chaos, and the remains at the end."""

import time

import anyio
import asyncpg

LOOK_S = 0.25
LEFT = """
select 'connection ' || application_name || ' ' || coalesce(state, '') from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
union all
select format('claim of job %s by worker %s', id, locked_by) from asyncq._all_jobs() where locked_by is not null
union all
select format('%s claims of partition %s', counted.jobs, counted.id)
from asyncq._partition_counts() as counted where counted.jobs <> 0
union all
select format('advisory lock %s %s', classid, objid) from pg_locks where locktype = 'advisory'
union all
select format('prepared transaction %s', gid) from pg_prepared_xacts
"""
# Of each recurring item, from its first slot to its last one: twice, or not at all.
GAPS = """
with minutes as (
  select item, ts::timestamptz as at, case item when 'third' then interval '2 min' else interval '1 min' end as every
  from chaos.slots),
span as (
  select item, every, min(at) as first, max(at) as last from minutes group by item, every)
select format('%s at %s: %s times', span.item, due.at, (
  select count(*) from minutes where minutes.item = span.item and minutes.at = due.at))
from span cross join lateral generate_series(first, last, every) as due(at)
where 1 <> (select count(*) from minutes where minutes.item = span.item and minutes.at = due.at)
"""
# A worker that was stalled while it fetched, and then killed, leaves claims to the next thorough round. That none is
# left is judged at the end. A limit that was lowered is exceeded for a while: over_limit allows a minute by the clock
# of the schema. Once that clock was moved by minutes, only the ledger of claims judges that, by snapshots.
BROKEN_LAWS = """
select law, job_id, said from asyncq.violations()
where law <> 'orphan_claim' and (law <> 'over_limit' or asyncq.clock() < clock_timestamp() + interval '10 s')
"""
TIMES = "select number, count(*)::int as times from chaos.paid where kind = $1 group by number"
HISTORY = """
select (ended.payload ->> 'number')::int as number, ended.state || ' ' || ended.result
from asyncq._ended_jobs as ended join asyncq._tasks as task on task.id = ended.task_id
where task.identifier in ('kept', 'crowd')
"""
REMAINING = """
select to_jsonb(job) - 'payload' as job, (
  select string_agg(said.reason || ': ' || said.detail, '; ') from asyncq.explain(job.id) as said) as reasons
from asyncq._all_jobs() as job order by id limit 5
"""
BROKEN = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Watch:
    """Checks all the time whether the laws of the store hold.

    Attributes:
        looks: The number of checks.
        violations: The broken laws that it found.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.looks = 0
        self.violations: set[str] = set()

    async def look_for_ever(self) -> None:
        """Check again and again, whenever the server is up."""
        while True:
            try:
                connection = await asyncpg.connect(self._dsn, timeout=5)
            except (*BROKEN, TimeoutError):
                await anyio.sleep(LOOK_S)
                continue
            try:
                while True:
                    rows = await connection.fetch(BROKEN_LAWS)
                    self.looks += 1
                    self.violations |= {f"{row['law']}: job {row['job_id']} {row['said']}" for row in rows}
                    await anyio.sleep(LOOK_S)
            except BROKEN:
                continue
            finally:
                connection.terminate()


async def wait_for_the_end(dsn: str, patience_s: float) -> list[str]:
    """Wait until no job is left. Returns some of the remaining jobs if their number does not fall for `patience_s`.

    Each comes with the reasons for which it does not run.
    """
    fewest, since = 0, time.monotonic()
    while left := (await ask(dsn, "select count(*) from asyncq.jobs"))[0]["count"]:
        if not fewest or left < fewest:
            fewest, since = left, time.monotonic()
        if time.monotonic() > since + patience_s:
            return [f"{row['reasons']} {row['job']}" for row in await ask(dsn, REMAINING)]
        await anyio.sleep(0.1)
    return []


async def wait_for_rest(dsn: str, sql: str, patience_s: float) -> list[str]:
    """Wait for so long until a query returns no row. Returns some of the remaining rows."""
    until = time.monotonic() + patience_s
    while (left := await ask(dsn, sql, 5)) and time.monotonic() < until:
        await anyio.sleep(0.1)
    return [str(row[0]) for row in left]


async def left_behind(dsn: str) -> list[str]:
    """List locks, claims and connections that remain after closed connections had time to end."""
    for _ in range(100):
        left = await ask(dsn, LEFT)
        if not left:
            break
        await anyio.sleep(0.05)
    return [str(row[0]) for row in left]


async def ask(dsn: str, sql: str, *args: object) -> list[asyncpg.Record]:
    """The answer of the server, which may have to be waited for."""
    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=5)
        except (*BROKEN, TimeoutError):
            await anyio.sleep(0.05)
            continue
        try:
            return await connection.fetch(sql, *args)
        finally:
            await connection.close(timeout=5)

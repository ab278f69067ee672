"""Beside a million jobs each function that people and dashboards call takes little of the server's CPU.

The goal is 30 ms on a quiet machine. A busy one takes longer for the same work, so the bound is the time that 300,000
integers take, which is about as much.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncq.testing import temporary_schema
from tests.support.session import Session, session

YARDSTICK = "(select sum(hashint4(i)) from generate_series(1, 300000) as i) as yardstick"
FILL = """
alter table asyncq._jobs set (autovacuum_enabled = off);
insert into asyncq._tasks (identifier) select 't' || i from generate_series(1, 20) as i;
insert into asyncq._workers (lease, pid, concurrency, host, tasks, started_claims)
select interval '1 day', 1, 100, 'h', array(select identifier from asyncq._tasks),
  array(select (333 * (w + 10 * j)) || '/1' from generate_series(0, 99) as j)
from generate_series(1, 10) as w;
insert into asyncq._jobs
  (run_at, created_at, updated_at, task_id, priority, payload, attempts, queue, partition, last_error, flags)
select now() + case when i % 10 < 3 then interval '1 h' else '0' end - interval '1 s' * (i % 1000), now(),
  now() - interval '1 ms' * (1000000 - i), 1 + i % 20, i % 3,
  json_build_object('user', i % 5000, 'text', repeat('x', 40), 'order', i),
  case i % 50 when 0 then 25 when 1 then 3 else 0 end, queue, asyncq._partition(1::smallint, queue),
  case when i % 50 < 2 then 'TimeoutError: no host ' || i % 7 || E'\\nTraceback' || repeat('line ', 100) end,
  case when i % 97 = 0 then '{"big": null}'::jsonb end
from generate_series(1, 1000000) as i,
  lateral (select case when i % 20 = 7 then 'q' || i % 2000 end) as its(queue);
update asyncq._jobs set locked_by = 1 + id / 333 % 10, locked_at = now(), lock_token = 1, queue = null, partition = null
where id % 333 = 0 and id <= 333 * 1000 and attempts < 25;
insert into asyncq._stats
  (at, took_s, waited_s, task_id, span_s, completed, retried, discarded, cancelled, snoozed, took, waited)
select past.at, 1.5, 1.5, task.id, past.span_s, 500, 3, 1, 0, 0, array_fill(5, '{20}'), array_fill(5, '{20}')
from (
    select date_trunc('minute', now()) - interval '1 min' * i, 60 from generate_series(0, 179) as i
    union all
    select date_bin('15 min', now() - interval '3 h', '2000-01-01') - interval '15 min' * i, 900
    from generate_series(1, 84) as i
    union all
    select date_trunc('hour', now()) - interval '1 h' * i, 3600 from generate_series(25, 720) as i) as past(at, span_s),
  asyncq._tasks as task;
insert into asyncq._depths
select now() - interval '10 s' * i, 5, 10, 1000, 10, 5, 5, 10, 1000, 500 from generate_series(0, 8639) as i;
insert into asyncq._depths
select now() - interval '1 min' * i, 5, 10, 1000, 10, 5, 5, 10, 1000, 500 from generate_series(1441, 43200) as i;
"""

CALLS = [
    "find_jobs()",
    *(
        f"find_jobs('{filter_}')"
        for filter_ in (
            '{"task": "t3"}',
            '{"task": "none"}',
            '{"state": "available"}',
            '{"state": "retryable"}',
            '{"state": "active"}',
            '{"state": "discarded", "task": "t9"}',
            '{"queue": "q7"}',
            '{"key": "none"}',
            '{"flag": "none"}',
            '{"has": {"user": 7}}',
            '{"has": {"user": -7}}',
            '{"error": "no host 3"}',
            '{"error": "none"}',
            '{"due_before": "2001-01-01"}',
            '{"added_after": "2100-01-01"}',
        )
    ),
    "find_jobs('{}', 500000, false)",
    "failures()",
    "failed_jobs()",
    "backlog()",
    "backlog('{t1}')",
    "oldest_due()",
    "depths_by()",
    "running()",
    "counts()",
    "_list_workers()",
    "stats(now() - interval '6 h', '15 min', '')",
    "stats(now() - interval '1 day', '1 day')",
    "stats(now() - interval '7 days', '3 h', '')",
    "stats(now() - interval '7 days', '3 h', 't3')",
    "depths(now() - interval '1 day', '30 min')",
    "depths(now() - interval '7 days', '3 h')",
    "_list_history(null, null, null, null, 50)",
    "_list_history('discarded', 't9', null, null, 50)",
    "explain(7)",
    "explain(500000)",
    "pauses",
    "limits",
]


@pytest.fixture(scope="module")
async def million(dsn: str) -> AsyncIterator[Session]:
    """A million jobs of 20 tasks: some in queues, some discarded, a thousand that run."""
    if "host=/" not in dsn:
        pytest.skip("the CPU of a server on another machine cannot be read")
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        await sql.execute(FILL)
        for table in ("_jobs", "_stats", "_depths"):
            await sql.execute(f"vacuum analyze asyncq.{table}")
        yield sql


def cpu_ms(pid: int) -> float:
    """The milliseconds that a process has been on a CPU."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count the CPU of a process")
async def test_each_call_takes_little_of_the_servers_cpu(million: Session) -> None:
    """The least of some calls counts: other processes slow some of them down. A scan of all jobs takes 100 ms.

    One test, so that the million is made once, whatever number of processes runs the tests.
    """
    pid = await million.value("select pg_backend_pid()")
    costs = dict[str, float]()
    for call in [*(f"asyncq.{call}" for call in CALLS), YARDSTICK]:
        for _ in range(5):
            before = cpu_ms(pid)
            await million.rows(f"select * from {call}")
            costs[call] = min(costs.get(call, 1e9), cpu_ms(pid) - before)
    most = costs.pop(YARDSTICK)

    assert {} == {call: cost for call, cost in costs.items() if cost >= most}

"""Hot statements read only the rows that they need, whatever statistics the planner has."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from asyncq.store.statements import query
from asyncq.testing import temporary_schema
from tests.support.jobs import rest
from tests.support.plans import cost
from tests.support.session import Session, session

QUEUES = 500
ROWS = 20_000

FILL = """
alter table asyncq._jobs set (autovacuum_enabled = off);
alter table asyncq._partitions set (autovacuum_enabled = off);
alter table asyncq._wakeups set (autovacuum_enabled = off);
insert into asyncq._tasks (identifier) select 't' || i from generate_series(1, 9) as i;
"""
JOBS = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, payload, attempts, queue, partition)
select now() + interval '{hours} h' - interval '1 s' * (i % 100), now(), now(), 1 + i % 5, i % 3, '{{}}', {attempts},
  queue, asyncq._partition(1::smallint, queue)
from generate_series(1, {rows}) as i,
  lateral (select case when i % 4 = 0 then 'q' || 1 + i / 4 % {queues} end) as its(queue);
select asyncq._wake_partitions(array(select id from asyncq._jobs where partition is not null));
"""
DEEP = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, queue, partition)
select now() - interval '{hours} h', now(), now(), 1, '{{}}', queue, asyncq._partition(1::smallint, queue)
from generate_series(1, {rows}) as i, lateral (select 'q' || {first} + i % {queues}) as its(queue);
select asyncq._wake_partitions(array(select id from asyncq._jobs where partition is not null));
"""
BUSY = """
insert into asyncq._partitions (id, running, key)
select asyncq._partition(1::smallint, queue), 1, queue
from generate_series({first}, {last}) as i, lateral (select '{name}' || i) as its(queue);
"""
"""Queues of which a job runs."""
ANALYSE = "analyze asyncq._jobs; analyze asyncq._partitions; analyze asyncq._wakeups; analyze asyncq._tasks"
FETCHES = ("fetch_jobs", "fetch_partitions")
TABLES = ("_jobs", "_partitions", "_wakeups")
READY = JOBS.format(hours=0, attempts=0, rows=ROWS, queues=QUEUES)
FUTURE = JOBS.format(hours=1, attempts=0, rows=ROWS, queues=QUEUES)
DEAD = JOBS.format(hours=0, attempts=25, rows=ROWS, queues=QUEUES)
FEW = JOBS.format(hours=0, attempts=0, rows=120, queues=QUEUES)


PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
}
"""How the connections of a worker that fetch and settle make their plans."""

TAKING = ("100", "2", "'{1,2,3,4,5}'", "null", "null", "null", "null")
"""What a succession has besides the ids and tokens: up to 100 queues go on, with token 2."""

NO_TEXTS = "array_fill(null::text, array[200])"
FAILED = (NO_TEXTS, *["ones"] * 4, "array_fill('failed'::text, array[200])", "ones", NO_TEXTS, NO_TEXTS)
"""What failures have besides the ids and tokens."""


@dataclass(frozen=True)
class Plan:
    """The work of a statement.

    Attributes:
        scans: (kind of scan, relation), for each node that reads a table and was executed.
        rows: Rows of _jobs that were read, those that a filter threw away included.
        buffers: Pages that were touched, counted each time.
    """

    scans: frozenset[tuple[str, str]]
    rows: float
    buffers: int


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan and all below it."""
    yield node
    for below in node.get("Plans", ()):
        yield from nodes(below)


def plan_of(answer: str) -> Plan:
    """Read what EXPLAIN says."""
    (top,) = json.loads(answer)
    executed = [node for node in nodes(top["Plan"]) if node["Actual Loops"]]
    reading = [node for node in executed if "Scan" in node["Node Type"] and "Relation Name" in node]
    jobs = [node for node in reading if node["Relation Name"] == "_jobs"]
    return Plan(
        frozenset((node["Node Type"], node["Relation Name"]) for node in reading),
        sum((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in jobs),
        top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"],
    )


class Explainer:
    """Explains statements of sql/queries, and rolls them back."""

    def __init__(self, sql: Session) -> None:
        self._sql = sql
        self._prepared: set[str] = set()

    async def explain(self, name: str, *arguments: str) -> Plan:
        """Run a statement, with its arguments as SQL text, planned once for all arguments."""
        if name not in self._prepared:
            await self._sql.execute(f"prepare {name} as {query(name, self._sql.schema)}")
            self._prepared.add(name)
        transaction = self._sql.connection.transaction()
        await transaction.start()
        answer = await self._sql.connection.fetchval(
            f"explain (analyze, buffers, format json) execute {name}({', '.join(arguments)})"
        )
        await transaction.rollback()
        return plan_of(answer)

    async def execute(self, text: str) -> None:
        """Run statements without parameters."""
        await self._sql.execute(text)

    async def fetch(
        self, name: str, limit: int, *, after: str = "null, null, null", forbidden: str = "null", batch_from: int = 1000
    ) -> Plan:
        """Explain a fetch by a worker that knows all tasks."""
        return await self.explain(
            *(name, "1", "1", str(limit), "'{1,2,3,4,5}'", forbidden, after, "null", "null"),
            *(str(batch_from), "'{}'", "false" if name == "fetch_jobs" else "null"),
        )

    async def settle(self, name: str, *arrays: str) -> Plan:
        """Explain a statement over the claims of worker 7: their ids, their tokens, more arrays of as many elements."""
        ids = await self._sql.values("select id from asyncq._jobs where locked_by = 7 order by id")
        array = "'{" + ",".join(map(str, ids)) + "}'"
        ones = "'{" + ",".join("1" for _ in ids) + "}'"
        return await self.explain(name, "7", array, ones, *(ones if kind == "ones" else kind for kind in arrays))


@pytest.fixture(scope="module", params=[False, True], ids=["never analysed", "analysed"])
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Explainer]:
    """A table of 20,000 ready, 20,000 future and 20,000 dead jobs, a quarter of each in 500 queues; 200 are claimed."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + READY + FUTURE + DEAD)
        if request.param:
            await sql.execute(ANALYSE)
        await sql.execute(f"""
            {BUSY.format(name="q", first=1, last=50)}
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id in (select id from asyncq._jobs where queue is null order by id limit 150)
                or id in (select min(id) from asyncq._jobs where substr(queue, 2)::int <= 50 group by queue);
            insert into asyncq._workers (id, lease, pid, concurrency, host, tasks) overriding system value
              values (7, '30 s', 1, 1, 'h', '{{}}')""")
        yield Explainer(sql)


def assert_no_scan_of_jobs(plan: Plan) -> None:
    """Every row of a table that grows was found by an index."""
    assert not {("Seq Scan", table) for table in TABLES} & plan.scans
    assert "_jobs" in {relation for _, relation in plan.scans}


@pytest.mark.parametrize("name", FETCHES)
@pytest.mark.parametrize("limit", [1, 10, 100, 500])
async def test_a_fetch_reads_a_few_rows_for_each_that_it_takes(full: Explainer, limit: int, name: str) -> None:
    """To find, lock and claim a job takes ten rows; jobs without a queue may come first."""
    plan = await full.fetch(name, limit)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 10 * limit + 250
    assert plan.buffers <= 45 * limit + 1200


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("limit", [1, 500])
async def test_a_fetch_of_jobs_without_a_queue_reads_only_those(dsn: str, analysed: bool, limit: int) -> None:
    """Each row is read twice: to lock it, and to claim it. If no queue was woken, the other statement reads none."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + READY + FUTURE + DEAD)
        if analysed:
            await sql.execute(ANALYSE)
        explainer = Explainer(sql)
        plan = await explainer.fetch("fetch_jobs", limit)
        await sql.execute("delete from asyncq._wakeups")
        of_queues = await explainer.fetch("fetch_partitions", limit)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 3 * limit + 10
    assert of_queues.rows <= 10


@pytest.mark.parametrize("name", FETCHES)
async def test_a_fetch_after_the_cursor_reads_no_more(full: Explainer, name: str) -> None:
    """It starts at the given place, and does not read the jobs before it."""
    plan = await full.fetch(name, 100, after="1::int2, now() - interval '50 s', 10000")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 1250


@pytest.mark.parametrize("name", FETCHES)
async def test_a_fetch_with_forbidden_flags_reads_no_more(full: Explainer, name: str) -> None:
    """This holds while few jobs have the flags."""
    plan = await full.fetch(name, 100, forbidden="'{f}'")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 1250


async def test_a_batch_is_settled_by_its_ids(full: Explainer) -> None:
    """Each row is read twice: to lock it, and to delete it. Of its queue one of each task and priority is read."""
    plan = await full.settle("settle_completed", "null", "null")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 400 + 5 * 50
    assert plan.buffers <= 5000


async def test_a_succession_reads_a_few_jobs_more_for_each_queue(full: Explainer) -> None:
    """The first ready job of each task and priority of 50 queues is found by an index, and the first one claimed."""
    plan = await full.settle("claim_next", *TAKING)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 400 + 10 * 50
    assert plan.buffers <= 8000


@pytest.mark.parametrize("marked", [False, True])
async def test_a_batch_of_failures_is_settled_by_its_ids(full: Explainer, marked: bool) -> None:
    """Each row is read by its id in a few statements: to lock it, and to change it. A mark costs no more."""
    if marked:
        await full.execute("update asyncq._jobs set cancelled_at = now() where locked_by = 7")
    try:
        plan = await full.settle("settle_rest", *FAILED)
    finally:
        await full.execute("update asyncq._jobs set cancelled_at = null where locked_by = 7")

    assert plan.buffers <= 8000


async def test_failures_are_settled_by_their_ids_though_the_plan_was_made_without_claims(dsn: str) -> None:
    """An index on claims was empty then, so all claims of the worker would be read for each failed job."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + READY)
        await sql.execute("vacuum analyze asyncq._jobs")
        ids = await sql.values("""
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id in (select id from asyncq._jobs where queue is null order by id limit 500) returning id""")
        ones = [1] * len(ids)
        nothing = [None] * len(ids)
        values = [nothing, ones, ones, ["e"] * len(ids), ones, ["failed"] * len(ids), ones, nothing, nothing]
        failed = sql.run("settle_rest", 7, *rest(sorted(ids), ones, *values))
        (_, rows) = (await cost(sql, failed))["_jobs"]

    assert rows <= 4 * len(ids)


async def test_a_beat_reads_only_the_cancelled_jobs_of_its_worker(full: Explainer) -> None:
    """Each worker asks every few seconds, and there is hardly ever a cancelled job."""
    await full.execute("update asyncq._jobs set cancelled_at = now() where id = (select min(id) from asyncq._jobs)")
    try:
        # The first one on a connection also reads the catalog.
        _, plan = [await full.explain("beat", "7, true, '{}', '{}'") for _ in range(2)]
    finally:
        await full.execute("update asyncq._jobs set cancelled_at = null where locked_by = 7")

    assert_no_scan_of_jobs(plan)
    assert (1, True) == (plan.rows, plan.buffers <= 20)


async def test_the_next_due_time_is_a_few_probes(full: Explainer) -> None:
    """20,000 jobs are due and 20,000 will be. Of these and of wakeups one of each task and priority is read, twice."""
    plan = await full.explain("next_due", "1", "null", "null", "null", "null", "null", "null")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 20
    assert plan.buffers <= 15 * (3 + 15)


@pytest.mark.parametrize("analysed", [False, True])
async def test_future_and_dead_jobs_cost_a_fetch_nothing(dsn: str, analysed: bool) -> None:
    """A fetch of 120 due jobs beside 40,000 of them reads none, neither before nor after it has found all."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + FUTURE + DEAD + FEW)
        if analysed:
            await sql.execute(ANALYSE)
        explainer = Explainer(sql)
        plans = [await explainer.fetch(name, 200) for name in FETCHES]

    for plan in plans:
        assert_no_scan_of_jobs(plan)
        assert plan.rows <= 5 * 120
        assert plan.buffers <= 30 * 120


async def test_an_empty_table_costs_a_fetch_nothing(dsn: str) -> None:
    """Idle workers ask again and again."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        explainer = Explainer(sql)

        for name in FETCHES:
            assert (await explainer.fetch(name, 500)).buffers <= 20
        assert (await explainer.explain("next_due", "1", "null", "null", "null", "null", "null", "null")).buffers <= 20


@pytest.mark.parametrize("analysed", [False, True])
async def test_many_busy_queues_cost_a_fetch_nothing(dsn: str, analysed: bool) -> None:
    """Of 20,000 only those that were woken are read, each by its number."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + BUSY.format(name="more", first=1, last=20_000) + READY)
        if analysed:
            await sql.execute(ANALYSE)
        plan = await Explainer(sql).fetch("fetch_partitions", 500)

    assert_no_scan_of_jobs(plan)
    assert plan.buffers <= 45 * 500 + 1200


async def test_a_plan_that_was_made_while_the_tables_were_empty_is_right_when_they_are_full(dsn: str) -> None:
    """A worker plans its fetch once; a scan, the best for nothing, would be kept until an autovacuum."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        await sql.execute("vacuum analyze")
        explainer = Explainer(sql)
        for name in FETCHES:
            await explainer.fetch(name, 100)
        await explainer.settle("settle_completed", "null", "null")
        await explainer.settle("claim_next", *TAKING)
        await sql.execute(READY)
        fetching = [await explainer.fetch(name, 100) for name in FETCHES]
        await sql.execute("""
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id <= 100 and queue is null""")
        settling = await explainer.settle("settle_completed", "null", "null")
        await sql.execute(f"""
            {BUSY.format(name="q", first=3, last=3)}
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id = (select id from asyncq._jobs where queue = 'q3' order by priority, run_at, id limit 1)""")
        succession = await explainer.settle("claim_next", *TAKING)

    for plan in (*fetching, settling, succession):
        assert_no_scan_of_jobs(plan)
    assert max(plan.rows for plan in fetching) <= 1250
    assert max(plan.buffers for plan in fetching) <= 45 * 100 + 1200
    assert settling.rows <= 300
    assert succession.rows <= 300


STATISTICS = pytest.mark.parametrize(
    "statistics", ["never analysed", "analysed", "planned while it was empty", "planned while it was new"]
)


async def fetch_after(sql: Session, statistics: str, text: str, limit: int) -> Plan:
    """Explain a fetch of jobs of queues, with tables of which the planner knows so much."""
    await sql.execute(FILL)
    explainer = Explainer(sql)
    if statistics.endswith("empty"):
        await sql.execute("vacuum analyze")
    if statistics.startswith("planned"):
        await explainer.fetch("fetch_partitions", limit)
    await sql.execute(text)
    if statistics == "analysed":
        await sql.execute(ANALYSE)
    return await explainer.fetch("fetch_partitions", limit)


@STATISTICS
async def test_jobs_that_are_stuck_behind_busy_queues_cost_a_fetch_nothing(dsn: str, statistics: str) -> None:
    """There are 10,000, of two queues. None is read."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        stuck = DEEP.format(hours=1, rows=10_000, first=1, queues=2) + BUSY.format(name="q", first=1, last=2)
        plan = await fetch_after(sql, statistics, stuck + DEEP.format(hours=0, rows=4000, first=3, queues=400), 100)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 1250
    assert plan.buffers <= 6000


@STATISTICS
async def test_a_fetch_from_one_deep_partition_reads_a_few_pages_for_each_job(dsn: str, statistics: str) -> None:
    """Its limit lets a hundred of 10,000 jobs start. The index of partitions would be read to its end for each."""
    wide = """
        insert into asyncq._partitions (id, at_once, key) values (asyncq._partition(1::smallint, 'q0'), 1000, 'q0')"""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        plan = await fetch_after(sql, statistics, DEEP.format(hours=0, rows=10_000, first=0, queues=1) + wide, 100)

    assert_no_scan_of_jobs(plan)
    assert 100 <= plan.rows <= 10 * 100
    assert plan.buffers <= 20 * 100


@STATISTICS
async def test_the_next_job_of_a_deep_queue_is_a_few_pages(dsn: str, statistics: str) -> None:
    """Of 30,000 jobs the first one is read, by its id; in the index of partitions it would be looked for among all."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        explainer = Explainer(sql)
        if statistics.endswith("empty"):
            await sql.execute("vacuum analyze")
        if statistics.startswith("planned"):
            await explainer.settle("claim_next", *TAKING)
        await sql.execute(DEEP.format(hours=0, rows=30_000, first=0, queues=1) + BUSY.format(name="q", first=0, last=0))
        await sql.execute("""
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id = (select min(id) from asyncq._jobs)""")
        if statistics == "analysed":
            await sql.execute(ANALYSE)
        plan = await explainer.settle("claim_next", *TAKING)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 10
    assert plan.buffers <= 100


@STATISTICS
async def test_queues_that_were_woken_very_often_cost_a_bounded_look(dsn: str, statistics: str) -> None:
    """Jobs were added to ten busy queues one by one. A fetch of ten looks at 5,000 wakeups, and at no job."""
    again = """
        insert into asyncq._wakeups (at, partition, task_id, priority)
          select at - interval '1 ms' * i, partition, task_id, priority
          from asyncq._wakeups, generate_series(1, 2000) as i"""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        text = DEEP.format(hours=1, rows=10_000, first=0, queues=10) + BUSY.format(name="q", first=0, last=9) + again
        plan = await fetch_after(sql, statistics, text, 10)

    assert not {("Seq Scan", table) for table in TABLES} & plan.scans
    assert plan.rows <= 200
    assert plan.buffers <= 20_000


async def test_a_fetch_of_partitions_that_was_planned_on_empty_tables_compares_no_row_with_each(dsn: str) -> None:
    """An autoanalyze between two bursts is enough for such a plan. A nested loop would read 250,000 rows here."""
    queues = 500
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.rows("select from asyncq.add_job('t')")
        await sql.execute(f"analyze; prepare early as {query('fetch_partitions', schema)}")
        arguments = f"1, 1, {queues}, '{{1}}', null, null, null, null, null, null, 1000, '{{}}', null"
        await sql.execute(f"execute early({arguments})")
        await sql.execute(f"""
            select asyncq.add_jobs(array_agg(
              ('t', null, 'q' || i % {queues}, now(), null, null, 0, null, null, null)::asyncq.job_spec))
            from generate_series(1, {3 * queues}) as i""")
        most = 0
        for _ in range(2):  # of new partitions, then of known ones
            answer = await sql.value(f"explain (analyze, format json) execute early({arguments})")
            (top,) = json.loads(answer)
            most = max(most, *(read_by(node) for node in nodes(top["Plan"])))
            await sql.execute("select from asyncq._rescue_jobs(true)")

    assert queues <= most <= 20 * queues


def read_by(node: dict[str, Any]) -> float:
    """How many rows a node has read, or compared."""
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
    return (node["Actual Rows"] + removed) * node["Actual Loops"]

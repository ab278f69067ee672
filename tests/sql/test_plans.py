"""Hot statements read only the rows that they need, whatever statistics the planner has."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from asyncq.store.statements import query
from asyncq.testing import temporary_schema
from tests.support.plans import cost
from tests.support.session import Session, session

QUEUES = 500
ROWS = 20_000

FILL = """
alter table asyncq._jobs set (autovacuum_enabled = off);
alter table asyncq._queues set (autovacuum_enabled = off);
insert into asyncq._tasks (identifier) select 't' || i from generate_series(1, 9) as i;
"""
JOBS = """
insert into asyncq._jobs (run_at, created_at, updated_at, task_id, priority, payload, attempts, queue)
select now() + interval '{hours} h' - interval '1 s' * (i % 100), now(), now(), 1 + i % 5, i % 3, '{{}}', {attempts},
  case when i % 4 = 0 then 'q' || 1 + i / 4 % {queues} end
from generate_series(1, {rows}) as i;
"""
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
        self, limit: int, *, after: str = "null, null, null", forbidden: str = "null", batch_from: int = 1000
    ) -> Plan:
        """Explain a fetch by a worker that knows all tasks."""
        return await self.explain(
            *("fetch_jobs", "1", "1", str(limit), "'{1,2,3,4,5}'", forbidden, after, "null", "null"),
            *(str(batch_from), "'{}'"),
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
            await sql.execute("analyze asyncq._jobs; analyze asyncq._queues; analyze asyncq._tasks")
        await sql.execute("""
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id in (select id from asyncq._jobs where queue is null order by id limit 150)
                or id in (select min(id) from asyncq._jobs where substr(queue, 2)::int <= 50 group by queue);
            insert into asyncq._queues (locked_by, name) select 7, 'q' || i from generate_series(1, 50) as i;
            insert into asyncq._workers (id, lease, pid, concurrency, host, tasks) overriding system value
              values (7, '30 s', 1, 1, 'h', '{}')""")
        yield Explainer(sql)


def assert_no_scan_of_jobs(plan: Plan) -> None:
    """Every row of _jobs was found by an index."""
    assert ("Seq Scan", "_jobs") not in plan.scans
    assert "_jobs" in {relation for _, relation in plan.scans}


@pytest.mark.parametrize("limit", [1, 10, 100, 500])
async def test_a_fetch_reads_a_few_rows_for_each_that_it_takes(full: Explainer, limit: int) -> None:
    """Window, check of the others, locks and claim take ten rows for each job, besides the window of queues."""
    plan = await full.fetch(limit)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 10 * limit + 250
    assert plan.buffers <= 45 * limit + 1200


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("limit", [1, 500])
async def test_a_fetch_beside_no_queues_reads_only_the_taken_jobs(dsn: str, analysed: bool, limit: int) -> None:
    """Each row is read twice: to lock it, and to claim it."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + READY + FUTURE + DEAD + "delete from asyncq._jobs where queue is not null;")
        if analysed:
            await sql.execute("analyze asyncq._jobs")
        plan = await Explainer(sql).fetch(limit)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 3 * limit + 10


async def test_a_fetch_after_the_cursor_reads_no_more(full: Explainer) -> None:
    """It starts at the given queue, and does not read the queues before it."""
    plan = await full.fetch(100, after="1::int2, now() - interval '50 s', 10000")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 1250


async def test_a_fetch_with_forbidden_flags_reads_no_more(full: Explainer) -> None:
    """This holds while few jobs have the flags."""
    plan = await full.fetch(100, forbidden="'{f}'")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 1250


async def test_a_batch_is_settled_by_its_ids(full: Explainer) -> None:
    """Each row is read twice: to lock it, and to delete it."""
    plan = await full.settle("settle_completed", "null", "null")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 400
    assert plan.buffers <= 5000


async def test_a_succession_reads_one_job_more_for_each_queue(full: Explainer) -> None:
    """The first ready job of each of 50 queues is found by an index, locked, and claimed."""
    plan = await full.settle("claim_next", *TAKING)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 400 + 5 * 50
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
        failed = sql.run("settle_rest", 7, sorted(ids), ones, *values)
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
    """20,000 jobs are due and 20,000 will be. One of each priority and kind is read, twice."""
    plan = await full.explain("next_due", "1", "null", "null", "null", "null", "null", "null")

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 20
    assert plan.buffers <= 120


@pytest.mark.parametrize("analysed", [False, True])
async def test_future_and_dead_jobs_cost_a_fetch_nothing(dsn: str, analysed: bool) -> None:
    """A fetch of 120 due jobs beside 40,000 of them reads none, neither before nor after it has found all."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL + FUTURE + DEAD + FEW)
        if analysed:
            await sql.execute("analyze asyncq._jobs")
        plan = await Explainer(sql).fetch(200)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 5 * 120
    assert plan.buffers <= 30 * 120


async def test_an_empty_table_costs_a_fetch_nothing(dsn: str) -> None:
    """Idle workers ask again and again."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        explainer = Explainer(sql)

        assert (await explainer.fetch(500)).buffers <= 20
        assert (await explainer.explain("next_due", "1", "null", "null", "null", "null", "null", "null")).buffers <= 20


@pytest.mark.parametrize("analysed", [False, True])
async def test_many_busy_queues_cost_a_fetch_nothing(dsn: str, analysed: bool) -> None:
    """Of 20,000 only those in its window are read, each by its name."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(f"""{FILL}
            insert into asyncq._queues (locked_by, name) select 7, 'more' || i from generate_series(1, 20000) as i;
            {READY}""")
        if analysed:
            await sql.execute("analyze asyncq._queues; analyze asyncq._jobs")
        plan = await Explainer(sql).fetch(500)

    assert ("Seq Scan", "_queues") not in plan.scans
    assert plan.buffers <= 45 * 500 + 1200


async def test_a_plan_that_was_made_while_the_tables_were_empty_is_right_when_they_are_full(dsn: str) -> None:
    """A worker plans its fetch once; a scan, the best for nothing, would be kept until an autovacuum."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        await sql.execute("vacuum analyze")
        explainer = Explainer(sql)
        await explainer.fetch(100)
        await explainer.settle("settle_completed", "null", "null")
        await explainer.settle("claim_next", *TAKING)
        await sql.execute(READY)
        fetching = await explainer.fetch(100)
        await sql.execute("""
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id <= 100 and queue is null""")
        settling = await explainer.settle("settle_completed", "null", "null")
        await sql.execute("""
            insert into asyncq._queues (locked_by, name) values (7, 'q3');
            update asyncq._jobs set locked_by = 7, locked_at = now(), lock_token = 1
              where id = (select id from asyncq._jobs where queue = 'q3' order by priority, run_at, id limit 1)""")
        succession = await explainer.settle("claim_next", *TAKING)

    for plan in (fetching, settling, succession):
        assert_no_scan_of_jobs(plan)
        assert ("Seq Scan", "_queues") not in plan.scans
    assert fetching.rows <= 1250
    assert settling.rows <= 300
    assert succession.rows <= 300


@pytest.mark.parametrize("analysed", [False, True])
async def test_jobs_that_are_stuck_behind_busy_queues_cost_a_bounded_walk(dsn: str, analysed: bool) -> None:
    """There are 10,000: a fetch reads its window, then steps from queue to queue."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(f"""{FILL}
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, queue)
              select now() - interval '1 h', now(), now(), 1, '{{}}', 'q' || 1 + i % 2
              from generate_series(1, 10000) as i;
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, queue)
              select now(), now(), now(), 1, '{{}}', 'q' || 3 + i % 400 from generate_series(1, 4000) as i;
            insert into asyncq._queues (locked_by, name) values (7, 'q1'), (7, 'q2')""")
        if analysed:
            await sql.execute("analyze asyncq._jobs; analyze asyncq._queues")
        plan = await Explainer(sql).fetch(100)

        assert_no_scan_of_jobs(plan)
        assert plan.rows <= 3000
        assert plan.buffers <= 12000


@pytest.mark.parametrize("analysed", [False, True])
async def test_a_walk_over_deep_queues_steps_from_one_to_the_next_wherever_it_begins(dsn: str, analysed: bool) -> None:
    """All ten are busy with 1,000 jobs each. The walk steps over the last one, and never reads on."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(f"""{FILL}
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, queue)
              select now(), now(), now(), 1, '{{}}', 'q' || i % 10 from generate_series(1, 10000) as i;
            insert into asyncq._queues (locked_by, name) select 7, 'q' || i from generate_series(0, 9) as i""")
        if analysed:
            await sql.execute("analyze asyncq._jobs; analyze asyncq._queues")
        explainer = Explainer(sql)
        plans = [await explainer.fetch(10) for _ in range(10)]

    for plan in plans:
        assert_no_scan_of_jobs(plan)
    assert max(plan.rows for plan in plans) <= 200
    assert max(plan.buffers for plan in plans) <= 400


async def test_a_walk_that_was_planned_while_the_tables_were_empty_steps_from_queue_to_queue(dsn: str) -> None:
    """An index with another order was free then, but would have to be read to its end for each step."""
    async with temporary_schema(dsn) as schema, session(dsn, schema, **PLANS) as sql:
        await sql.execute(FILL)
        await sql.execute("vacuum analyze")
        explainer = Explainer(sql)
        await explainer.fetch(10)
        await sql.execute("""
            insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload, queue)
              select now(), now(), now(), 1, '{}', 'q' || i % 10 from generate_series(1, 10000) as i;
            insert into asyncq._queues (locked_by, name) select 7, 'q' || i from generate_series(1, 9) as i""")
        plan = await explainer.fetch(10)

    assert_no_scan_of_jobs(plan)
    assert plan.rows <= 300

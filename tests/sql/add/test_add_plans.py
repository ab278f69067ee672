"""Adds find their rows by an index, whatever statistics the planner has or had.

This holds for job keys, unique policies and idempotency keys; and for the removal of a job by its key.
"""

import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest

from asyncq.testing import temporary_schema
from tests.support.keyed import MODES, Spec, add_all
from tests.support.plans import FILL, ROWS, TABLES, cost
from tests.support.session import Session, session
from tests.support.unique import ALL_STATES, DEFAULT_STATES, STRATEGIES

SPECS = 20

# A quarter of the jobs are discarded under one key; there are as many ended jobs and requests.
FILL_UNIQUE = f"""
insert into asyncq._jobs
  (run_at, created_at, updated_at, task_id, payload, attempts, locked_by, locked_at, lock_token, unique_key)
select now() + interval '1 h', now(), now(), (select id from asyncq._tasks where identifier = 't'),
  '{{}}', case when i % 4 = 0 then 25 else 0 end,
  case when i % 20 = 1 then 1 end, case when i % 20 = 1 then now() end, case when i % 20 = 1 then 1 end,
  sha256(convert_to(case when i % 4 = 0 then 'failed' else 'k' || i end, 'UTF8'))
from generate_series(1, {ROWS}) as i;
insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
select -i, now(), now(), 'infinity', 1, 'completed', sha256(convert_to('ended' || i, 'UTF8'))
from generate_series(1, {ROWS}) as i;
insert into asyncq._requests (keep_until, job_id, key, digest)
select 'infinity', -i, 'r' || i, asyncq._digest('t', '{{}}') from generate_series(1, {ROWS}) as i;
"""


def unique(key: str, **asked: Any) -> Spec:
    """A spec with a unique key."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    question = {"unique_key": rf"\x{digest}", "on_conflict": "ignore", "states": DEFAULT_STATES, "period": None} | asked
    return Spec(key=None, extra=json.dumps(question))


def request(key: str, **asked: Any) -> Spec:
    """A spec with an idempotency key."""
    return Spec(key=None, extra=json.dumps({"idempotency_key": key, "window_s": 60} | asked))


class Kind(NamedTuple):
    """The options of adds, and the rows of the tables.

    Attributes:
        fill: Makes the rows.
        calls: A call by its name, with its specs.
        rows: How many rows a call may read for each spec.
        more: How many rows it may read besides.
        removed: How many jobs have the job key k1.
    """

    fill: str
    calls: dict[str, list[Spec]]
    rows: int
    more: int
    removed: int


# Of keys that are free, held in each state, doubled, and none.
JOB_KEYS = {
    "one new": [Spec(key="new")],
    "many new": [Spec(key=f"new{i}") for i in range(SPECS)],
    "many new with new names": [Spec(f"t{i}", queue=f"q{i}", key=f"new{i}") for i in range(SPECS)],
    "many held with many names": [Spec(f"some{i + 1}", queue=f"some{i + 1}", key=f"k{i + 1}") for i in range(SPECS)],
    **{f"one held, {mode}": [Spec(key="k1", mode=mode)] for mode in MODES},
    **{f"many held, {mode}": [Spec(key=f"k{i + 1}", mode=mode) for i in range(SPECS)] for mode in MODES},
    "many doubled": [Spec(key=f"k{i % 4 + 1}", mode=MODES[i % 3]) for i in range(SPECS)],
    "none": [Spec(key=None)] * SPECS,
}
# Of keys that are free, held, shared in the call; of requests that are new, and known.
UNIQUE = {
    "one new": [unique("new")],
    "many new": [unique(f"new{i}") for i in range(SPECS)],
    **{
        f"many held, {strategy}": [unique(f"k{4 * i + 1}", on_conflict=strategy) for i in range(SPECS)]
        for strategy in STRATEGIES
    },
    "many held, in all states": [unique(f"k{4 * i + 1}", states=ALL_STATES, period="PT1H") for i in range(SPECS)],
    "many ended": [unique(f"ended{i + 1}", states=ALL_STATES) for i in range(SPECS)],
    "many ended, replaced": [unique(f"ended{i + 1}", states=ALL_STATES, on_conflict="replace") for i in range(SPECS)],
    "one key of which thousands have failed": [unique("failed")],
    "one key of which thousands have failed, replaced": [unique("failed", on_conflict="replace")],
    "many that run are run again": [unique(f"k{20 * i + 1}", rerun=True) for i in range(SPECS)],
    "many alike": [unique(f"k{4 * (i % 4) + 1}") for i in range(SPECS)],
    "many shared": [unique(f"k{4 * (i % 10) + 1}", on_conflict="replace") for i in range(SPECS)],
    "many new requests": [request(f"new{i}") for i in range(SPECS)],
    "many known requests": [request(f"r{i + 1}") for i in range(SPECS)],
    "many shared requests": [request(f"r{i % 10 + 1}") for i in range(SPECS)],
}
KINDS = {"job keys": Kind(FILL, JOB_KEYS, 12, 10, 1), "unique jobs": Kind(FILL_UNIQUE, UNIQUE, 20, 20, 0)}
PLANNED = ("never analysed", "analysed", "planned while it was empty")


@pytest.fixture(scope="module", params=itertools.product(KINDS, PLANNED), ids=", ".join)
async def full(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[tuple[Kind, Session]]:
    """A kind, and a session on tables with its 20,000 jobs."""
    name, known = request.param
    kind = KINDS[name]
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        for table in TABLES:
            await sql.execute(f"alter table asyncq.{table} set (autovacuum_enabled = off)")
        await sql.execute("insert into asyncq._tasks (identifier) values ('t')")
        if known.startswith("planned"):
            for table in TABLES:
                await sql.execute(f"vacuum analyze asyncq.{table}")
            for specs in kind.calls.values():
                await cost(sql, add_all(sql, specs))
            await sql.rows("select asyncq.remove_job('k1')")
        await sql.execute(kind.fill)
        if known == "analysed":
            for table in TABLES:
                await sql.execute(f"analyze asyncq.{table}")
        yield kind, sql


async def test_an_add_reads_a_few_rows_for_each_of_its_jobs(full: tuple[Kind, Session]) -> None:
    """A scan of a table with a million jobs would take a second, for each add, with all key locks held."""
    kind, sql = full
    for call, specs in kind.calls.items():
        costs = await cost(sql, add_all(sql, specs))

        assert (call, dict.fromkeys(costs, 0)) == (call, {table: scans for table, (scans, _) in costs.items()})
        assert sum(rows for _, rows in costs.values()) <= kind.rows * len(specs) + kind.more, call


async def test_a_removal_by_key_reads_a_few_rows(full: tuple[Kind, Session]) -> None:
    """The functions for keys find the job by its index too."""
    kind, sql = full
    costs = await cost(sql, sql.rows("select asyncq.remove_job('k1')"))

    assert dict.fromkeys(costs, 0) == {table: scans for table, (scans, _) in costs.items()}
    assert kind.removed <= costs["_jobs"][1] <= 5


def keyed(key: str) -> Spec:
    """A spec that replaces the job of its key."""
    return Spec(key=key, mode="replace")


def deduplicated(key: str) -> Spec:
    """A spec that leaves the job of its key as it is."""
    return Spec(key=key, mode="unsafe_dedupe")


def replacing(key: str) -> Spec:
    """A spec that replaces the job of its unique key."""
    return unique(key, on_conflict="replace")


@pytest.mark.parametrize(
    ("calls", "revisions"),
    [
        pytest.param(
            [(keyed, "added"), (keyed, "updated"), (deduplicated, "deduplicated")], [2, 2, 10_000], id="job keys"
        ),
        pytest.param([(unique, "added"), (replacing, "added"), (request, "added")], [0, 0, 20_000], id="unique jobs"),
    ],
)
async def test_ten_thousand_jobs_with_keys_in_one_call_need_no_server_setting(
    dsn: str, calls: list[tuple[Callable[[str], Spec], str]], revisions: list[int]
) -> None:
    """Advisory locks in their place would run out of shared memory."""
    async with temporary_schema(dsn) as schema, session(dsn, schema) as sql:
        outcomes = [
            {one.outcome for one in await add_all(sql, [make(f"k{i}") for i in range(10_000)])} for make, _ in calls
        ]
        found = await sql.value("select array[min(revision), max(revision), count(*)] from asyncq._jobs")

    assert [{outcome} for _, outcome in calls] == outcomes
    assert revisions == found

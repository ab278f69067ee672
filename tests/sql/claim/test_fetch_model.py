"""`fetch_jobs` against a model of ten lines of Python, on random tables."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.jobs import BATCH_FROM, NO_PARTITIONS, fetch, locked_queues, stray_queues, wake
from tests.support.session import Session
from tests.support.soaking import TIMES

TASKS = """
insert into asyncq._tasks (id, identifier) overriding system value values (1, 't1'), (2, 't2'), (3, 't3')
  on conflict do nothing"""

LEFT = """
insert into asyncq._wakeups (at, partition, job_id, task_id, priority)
select now() - interval '1 min', partition, 0, task_id, priority from asyncq._jobs
where id = any($1) and partition is not null"""


@dataclass(frozen=True)
class Row:
    """A job, as far as a fetch reads it."""

    queue: str | None
    priority: int
    seconds: int
    task: int
    flag: str | None
    attempts: int
    claimed: bool
    follows: bool
    """An earlier job of its queue, task and priority has left."""


ROWS = st.builds(
    Row,
    queue=st.none() | st.sampled_from(["a", "b", "c", "d"]),
    priority=st.integers(-1, 1),
    # Most can run: else few tables have two that can.
    seconds=st.sampled_from([-2, -1, 0, -2, -1, 0, 1]),
    task=st.sampled_from([1, 1, 1, 2, 2, 3]),
    flag=st.sampled_from([None, None, None, "good", "bad"]),
    attempts=st.sampled_from([0, 0, 0, 1, 2]),
    claimed=st.sampled_from([False, False, False, True]),
    follows=st.booleans(),
)
SINCE = st.sampled_from([None, 0.5, 1.5])
CURSORS = st.none() | st.tuples(st.integers(-1, 1), st.integers(-2, 1), st.integers(0, 30))


def one_claim_a_queue(rows: list[Row]) -> list[Row]:
    """The table refuses two running jobs of one queue: the second one waits."""
    busy: set[str] = set()
    kept = []
    for row in rows:
        if row.claimed and row.queue in busy:
            row = replace(row, claimed=False)
        if row.claimed and row.queue is not None:
            busy.add(row.queue)
        kept.append(row)
    return kept


def expected(rows: list[Row], limit: int, cursor: tuple[int, int, int] | None, since_s: float | None) -> set[int]:
    """The model: the best of the jobs that can run, and of each free queue the first one."""
    busy = {row.queue for row in rows if row.claimed and row.queue is not None}
    places = sorted(
        (row.priority, row.seconds, id_)
        for id_, row in enumerate(rows, 1)
        if not row.claimed and row.attempts < 2 and row.seconds <= 0 and row.task < 3 and row.flag != "bad"
    )
    candidates: list[int] = []
    for place in places:
        queue = rows[place[2] - 1].queue
        if queue is None:
            if (cursor is None or place > cursor) and (since_s is None or place[1] > -since_s):
                candidates.append(place[2])
        elif queue not in busy:
            busy.add(queue)
            candidates.append(place[2])
    return set(candidates[:limit])


async def store(sql: Session, rows: list[Row]) -> None:
    """Write the table; ids begin with 1."""
    await sql.execute(f"delete from asyncq._jobs; delete from asyncq._batches; {NO_PARTITIONS}")
    await sql.rows(
        """
        insert into asyncq._jobs (id, queue, priority, run_at, task_id, flags, attempts, max_attempts,
          created_at, updated_at, payload, locked_by, locked_at, lock_token)
        select ord, queue, priority, asyncq.now() + make_interval(secs => seconds), task, asyncq._flags(flag), attempts,
          2, now(), now(), '{}', claim, case when claim is not null then now() end, claim
        from unnest($1::text[], $2::int[], $3::float8[], $4::int[], $5::text[], $6::int[], $7::int[])
          with ordinality as row(queue, priority, seconds, task, flag_name, attempts, claim, ord)
        cross join lateral (select case when flag_name is not null then array[flag_name] end) as given(flag)""",
        *zip(
            *(
                (row.queue, row.priority, row.seconds, row.task, row.flag, row.attempts, 9 if row.claimed else None)
                for row in rows
            ),
            strict=True,
        )
        if rows
        else [[]] * 7,
    )
    await sql.execute(TASKS)
    await wake(sql)
    await sql.rows(LEFT, [id_ for id_, row in enumerate(rows, 1) if row.follows])
    await sql.execute("""
        insert into asyncq._partitions (id, running, key)
          select partition, 1, queue from asyncq._jobs where locked_by is not null and queue is not null""")


@settings(max_examples=120 * TIMES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROWS, min_size=4, max_size=25).map(one_claim_a_queue),
    limit=st.integers(1, 5),
    cursor=CURSORS,
    since_s=SINCE,
    batch_from=st.integers(1, 9),
)
async def test_a_fetch_claims_the_jobs_of_the_model(
    sql: Session,
    rows: list[Row],
    limit: int,
    cursor: tuple[int, int, int] | None,
    since_s: float | None,
    batch_from: int,
) -> None:
    """All rules apply at once: order, limit, queues, tasks, flags, discarded and claimed jobs."""
    await store(sql, rows)
    after = await place(sql, cursor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BATCH_FROM, "model", batch_from)
        claims = await fetch(
            sql, limit, tasks=["t1", "t2"], forbidden=["bad"], after=after, since_s=since_s, form="model"
        )
    queues = {claim["queue"] for claim in claims} | {row.queue for row in rows if row.claimed}

    assert expected(rows, limit, cursor, since_s) == {claim["id"] for claim in claims}
    assert sorted(queues - {None}) == await locked_queues(sql)
    assert [] == await stray_queues(sql)


async def place(sql: Session, cursor: tuple[int, int, int] | None) -> tuple[Any, Any, Any]:
    """The cursor as a statement takes it."""
    if cursor is None:
        return (None, None, None)
    return (cursor[0], await sql.value("select asyncq.now() + make_interval(secs => $1)", float(cursor[1])), cursor[2])

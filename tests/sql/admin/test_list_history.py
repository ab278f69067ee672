"""`_list_history` and the view `asyncq.history`: jobs that have ended and are kept, and discarded ones."""

from typing import Any

import pytest

from tests.support.jobs import add
from tests.support.marked import keep
from tests.support.session import Session

NONE = (None, None, None, None, 100)
LIST = "select id from asyncq._list_history($1, $2, $3::text::interval + now(), $4, $5)"


@pytest.fixture
async def ids(sql: Session) -> dict[str, int]:
    """Jobs of every kind, each an hour later than the one before; those of the history first."""
    found = {name: await add(sql, "kept") for name in ("cancelled", "completed", "discarded")}
    await sql.execute("update asyncq._tasks set keep_s = 3600")
    await sql.rows("select asyncq.cancel_jobs(array[$1::bigint])", found["cancelled"])
    await sql.rows("select asyncq.complete_jobs(array[$1::bigint])", found["completed"])
    await sql.rows("select asyncq.permanently_fail_jobs(array[$1::bigint], 'why')", found["discarded"])
    found["waiting"] = await add(sql, "kept")
    found["unkept"] = await add(sql, "plain")
    found["needed for uniqueness alone"] = await add(sql, "plain")
    await keep(sql, found["needed for uniqueness alone"])
    for name in ("unkept", "needed for uniqueness alone"):
        await sql.rows("select asyncq.complete_jobs(array[$1::bigint])", found[name])
    await sql.execute("""
        update asyncq._ended_jobs set ended_at = ended_at - interval '2 h' where state = 'cancelled'""")
    return found


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ((), ("discarded", "completed", "cancelled")),
        (("completed",), ("completed",)),
        (("discarded",), ("discarded",)),
        ((None, "kept", "-1 h"), ("discarded", "completed")),
        ((None, "plain"), ()),
        ((None, "unknown"), ()),
        ((None, None, None, None, 1), ("discarded", "completed")),
        ((None, None, None, "completed", 2), ("cancelled",)),
    ],
)
async def test_the_newest_jobs_come_first(
    sql: Session, ids: dict[str, int], wanted: tuple[Any, ...], names: tuple[str, ...]
) -> None:
    """Each filter is optional; a row that only uniqueness needs is no history. The most is that of each kind."""
    state, task, since, before, most = [*wanted, *NONE[len(wanted) :]]
    found = await sql.values(LIST, state, task, since, ids.get(before), most)

    assert [ids[name] for name in names] == found


async def test_the_view_has_the_same_jobs(sql: Session, ids: dict[str, int]) -> None:
    """It is what users read."""
    rows = await sql.rows("""
        select id, state, task_identifier, attempts, error, keep_until > ended_at as is_kept
        from asyncq.history order by id""")

    assert [
        (ids["cancelled"], "cancelled", "kept", 0, None, True),
        (ids["completed"], "completed", "kept", 0, "it was completed by hand, without a run", True),
        (ids["discarded"], "discarded", "kept", 0, "why", None),
    ] == [tuple(row) for row in rows]


async def test_a_page_of_a_large_history_begins_before_an_id(sql: Session) -> None:
    """The ids between two pages may be missing by then."""
    await sql.execute("""
        select asyncq._store_tasks('{t}');
        insert into asyncq._ended_jobs
            (id, created_at, ended_at, keep_until, task_id, state, run_at, attempts, max_attempts, priority)
          select number, now(), now(), now() + interval '1 h', (select max(id) from asyncq._tasks), 'completed',
            now(), 1, 25, 0
          from generate_series(1, 20000) as number""")
    page = await sql.values("select id from asyncq._list_history(null, null, null, 19000, 100)")

    assert [*range(18999, 18899, -1)] == page

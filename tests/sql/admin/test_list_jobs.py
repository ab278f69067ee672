"""`list_jobs` and `_list_jobs`: pages of jobs, in the order of their ids."""

import json
from typing import Any

import pytest

from tests.support.jobs import add, add_many
from tests.support.keyed import STATES, hold
from tests.support.session import Session


async def test_the_next_page_begins_after_the_last_id(sql: Session) -> None:
    """Jobs that are added or removed meanwhile shift no page."""
    ids = [await add(sql) for _ in range(5)]
    first = await sql.values("select id from asyncq.list_jobs(most => 2)")
    await sql.rows("delete from asyncq._jobs where id = $1", ids[0])
    second = await sql.values("select id from asyncq.list_jobs(most => 2, after => $1)", first[-1])

    assert [ids[:2], ids[2:4]] == [first, second]


async def test_filters_can_be_combined(sql: Session) -> None:
    """Null means any."""
    mine = await add(sql, "a", queue="q", flags=["f"])
    await add(sql, "b", queue="q", flags=["f"])
    await add(sql, "a", flags=["f"])
    await add(sql, "a", queue="q")
    found = await sql.values("select id from asyncq.list_jobs('available', 'a', 'q', 'f')")

    assert [mine] == found


READ = """
select seq_tup_read + idx_tup_fetch
from pg_catalog.pg_stat_xact_user_tables where relid = 'asyncq._jobs'::regclass
"""


async def listed(sql: Session, **given: Any) -> list[int]:
    """The ids of a page."""
    asked = {"state": None, "task": None, "queue": None, "flag": None, "after": 0, "most": 100} | given
    return [json.loads(row["document"])["id"] for row in await sql.run("list_jobs", *asked.values())]


@pytest.mark.parametrize("state", STATES)
async def test_a_state_is_listed(sql: Session, state: str) -> None:
    """Only jobs in that state are listed."""
    ids = {(await hold(sql, each, key=f"{each} {number}"))["id"]: each for number in range(2) for each in STATES}

    assert [id_ for id_ in sorted(ids) if ids[id_] == state] == await listed(sql, state=state)


@pytest.mark.parametrize("state", [None, "available", "discarded"])
async def test_each_filter_narrows_the_list(sql: Session, state: str | None) -> None:
    """All given filters must match."""
    first = await add(sql, "a", queue="q", flags=["f", "g"])
    second = await add(sql, "a", queue="r")
    third = await add(sql, "b", queue="q", flags=["g"])
    if state == "discarded":
        await sql.rows("update asyncq._jobs set attempts = 25")

    assert [first, second] == await listed(sql, state=state, task="a")
    assert [first, third] == await listed(sql, state=state, queue="q")
    assert [first, third] == await listed(sql, state=state, flag="g")
    assert [first] == await listed(sql, state=state, task="a", queue="q", flag="f")
    for nothing in ({"task": "c"}, {"queue": "s"}, {"flag": "h"}, {"state": "completed"}):
        assert [] == await listed(sql, **({"state": state} | nothing))


@pytest.mark.parametrize("state", [None, "available", "discarded"])
async def test_pages_follow_each_other_while_jobs_come_and_go(sql: Session, state: str | None) -> None:
    """A page begins after the last id of the one before, so nothing is repeated or skipped."""
    ids = [await add(sql) for _ in range(7)]
    if state == "discarded":
        await sql.rows("update asyncq._jobs set attempts = 25")
    first = await listed(sql, state=state, most=3)
    await sql.rows("delete from asyncq._jobs where id = any($1)", [ids[0], ids[3]])
    second = await listed(sql, state=state, most=3, after=first[-1])

    assert (ids[:3], ids[4:]) == (first, second)
    assert [] == await listed(sql, state=state, most=3, after=second[-1])


async def test_the_few_that_have_failed_are_found_without_reading_the_others(sql: Session) -> None:
    """It is the list that users read first."""
    await add_many(sql, 20_000)
    last = await sql.value("select max(id) from asyncq._jobs")
    await sql.rows("update asyncq._jobs set attempts = 25 where id > $1", last - 3)
    before = await sql.value(READ)
    page = await listed(sql, state="discarded", task="t")
    read = await sql.value(READ) - before

    assert ([last - 2, last - 1, last], True) == (page, read <= 20)


@pytest.mark.parametrize("after", [0, 15_000])
async def test_a_page_of_very_many_that_have_failed_does_not_read_them_all(sql: Session, after: int) -> None:
    """Otherwise a reader of all pages would read all jobs for each page."""
    await add_many(sql, 20_000)
    await sql.rows("update asyncq._jobs set attempts = 25")
    first = await sql.value("select min(id) from asyncq._jobs")
    before = await sql.value(READ)
    page = await listed(sql, state="discarded", after=first + after - 1)
    read = await sql.value(READ) - before

    assert [*range(first + after, first + after + 100)] == page
    assert read <= 1_500


@pytest.fixture
async def far(sql: Session) -> tuple[Session, int]:
    """Make more jobs than one page scans, the last 1,200 of them failed; returns the id of the first of these too."""
    await add_many(sql, 21_600)
    first = await sql.value("select max(id) - 1199 from asyncq._jobs")
    await sql.rows(
        """
        update asyncq._jobs set attempts = 25, queue = case when id % 2 = 0 then 'even' end,
          flags = case when id % 3 = 0 then '{"f": true}'::jsonb end
        where id >= $1""",
        first,
    )
    return sql, first


@pytest.mark.parametrize("before", [21_600, 1_200, 150])
async def test_many_that_have_failed_are_found_wherever_they_are(far: tuple[Session, int], before: int) -> None:
    """They may be behind very many others, in between, or at the end, where the page is short."""
    sql, first = far
    last = first + 1_199
    after = last - before
    ids = range(max(first, after + 1), last + 1)

    assert [*ids][:200] == await listed(sql, state="discarded", after=after, most=200)
    assert [id_ for id_ in ids if id_ % 2 == 0][:200] == await listed(
        sql, state="discarded", task="t", queue="even", after=after, most=200
    )
    assert [id_ for id_ in ids if id_ % 3 == 0][:200] == await listed(
        sql, state="discarded", flag="f", after=after, most=200
    )
    assert [] == await listed(sql, state="discarded", task="other", after=after)


@pytest.mark.parametrize("filters", [{}, {"state": "available"}, {"task": "t"}])
async def test_a_page_of_a_large_table_reads_a_page(sql: Session, filters: dict[str, str]) -> None:
    """This holds without statistics of the table."""
    await add_many(sql, 20_000)
    last = await sql.value("select max(id) from asyncq._jobs")
    before = await sql.value(READ)
    page = await listed(sql, after=last - 5_000, **filters)
    read = await sql.value(READ) - before

    assert 100 == len(page)
    assert read <= 300

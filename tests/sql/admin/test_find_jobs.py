"""`find_jobs`: pages of the jobs that match a filter."""

import json
from typing import Any

import pytest

from tests.support.jobs import add, add_many, fetch
from tests.support.keyed import STATES, hold
from tests.support.session import Session

READ = """
select seq_tup_read + idx_tup_fetch
from pg_catalog.pg_stat_xact_user_tables where relid = 'asyncq._jobs'::regclass
"""


async def page(
    sql: Session, start: int | None = None, *, newest: bool = False, most: int = 100, look: int = 10_000, **given: Any
) -> tuple[list[int], int | None]:
    """The ids of a page, and where the next one begins."""
    text = "select asyncq.find_jobs($1::text::jsonb, $2, $3, $4, $5)"
    found = json.loads(await sql.value(text, json.dumps(given), start, newest, most, look))
    return [job["id"] for job in found["jobs"]], found["next"]


async def found(sql: Session, **given: Any) -> list[int]:
    """The ids of the first page."""
    return (await page(sql, **given))[0]


async def test_the_next_page_begins_behind_the_last_id(sql: Session) -> None:
    """Jobs that are added or removed meanwhile shift no page."""
    ids = [await add(sql) for _ in range(5)]
    first, start = await page(sql, most=2)
    await sql.rows("delete from asyncq._jobs where id = $1", ids[0])
    second, left = await page(sql, start, most=2)
    third = await page(sql, left, most=2)

    assert (ids[:2], ids[2:4], (ids[4:], None)) == (first, second, third)


async def test_the_newest_come_first_on_wish(sql: Session) -> None:
    """Somebody who looks for a fault looks at the last jobs."""
    ids = [await add(sql) for _ in range(5)]
    first, start = await page(sql, newest=True, most=3)

    assert (ids[:1:-1], (ids[1::-1], None)) == (first, await page(sql, start, newest=True, most=3))


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("state", STATES)
async def test_a_state_is_found(sql: Session, state: str, newest: bool) -> None:
    """Only jobs in that state are found."""
    ids = {(await hold(sql, each, key=f"{each} {number}"))["id"]: each for number in range(2) for each in STATES}
    wanted = [id_ for id_ in sorted(ids, reverse=newest) if ids[id_] == state]

    assert (wanted, None) == await page(sql, state=state, newest=newest)


async def test_a_cancelled_job_that_runs_is_found_by_that_state(sql: Session) -> None:
    """It no longer counts as active."""
    held = await hold(sql, "active", key="k")
    await sql.rows("update asyncq._jobs set cancelled_at = now()")

    assert ([held["id"]], []) == (await found(sql, state="cancelled"), await found(sql, state="active"))


@pytest.mark.parametrize("state", [None, "available", "discarded"])
async def test_each_member_narrows_the_page(sql: Session, state: str | None) -> None:
    """All of them must match."""
    first = await add(sql, "a", queue="q", flags=["f", "g"], payload='{"user": 7, "tags": ["x", "y"]}')
    second = await add(sql, "a", queue="r", payload='{"user": 70}')
    third = await add(sql, "b", queue="q", flags=["g"], payload="[7]")
    await sql.rows("update asyncq._jobs set last_error = 'TimeoutError: 100% of \\it', key = 'k' where id = $1", third)
    if state == "discarded":
        await sql.rows("update asyncq._jobs set attempts = 25")

    for given, wanted in [
        ({"task": "a"}, [first, second]),
        ({"queue": "q"}, [first, third]),
        ({"flag": "g"}, [first, third]),
        ({"has": {"user": 7}}, [first]),
        ({"has": {"tags": ["y"]}}, [first]),
        ({"has": 7}, [third]),
        ({"key": "k"}, [third]),
        ({"error": "timeoutERROR: 100% of \\it"}, [third]),
        ({"error": "100_"}, []),
        ({"due_before": "2100-01-01T00:00:00Z"}, [first, second, third]),
        ({"due_before": "2000-01-01T00:00:00Z"}, []),
        ({"added_after": "2000-01-01T00:00:00Z"}, [first, second, third]),
        ({"added_after": "2100-01-01T00:00:00Z"}, []),
        ({"task": "a", "queue": "q", "flag": "f", "has": {"user": 7}}, [first]),
        *[({name: "nothing"}, []) for name in ("task", "queue", "flag", "key", "error", "has")],
    ]:
        given = given if state is None else given | {"state": state}
        assert wanted == await found(sql, **given), given


async def test_a_member_that_is_null_is_not_given(sql: Session) -> None:
    """Callers send all members."""
    ids = [await add(sql, "a"), await add(sql, "b")]

    assert (ids, ids[1:]) == (await found(sql, task=None, has=None), await found(sql, task="b", state=None))


@pytest.mark.parametrize(
    ("given", "column", "message"),
    [
        ({"colour": 7}, "filter", 'the unknown member "colour", expected task, queue'),
        ({"colour": None}, "filter", "unknown member"),
        ({"task": 7}, "task", "task in filter must be a text"),
        ({"state": "completed"}, "state", 'state in filter is "completed", expected scheduled'),
        ({"due_before": "soon"}, "due_before", 'due_before in filter is no time: "soon"'),
    ],
)
async def test_a_wrong_filter_is_refused_by_its_member(
    sql: Session, given: dict[str, Any], column: str, message: str
) -> None:
    """A misspelt member must not look like a filter that all jobs match."""
    refused = await sql.refusal("select asyncq.find_jobs($1::text::jsonb)", json.dumps(given))

    assert ("22023", column) == (refused.sqlstate, refused.as_dict()["column_name"])
    assert message in str(refused)


@pytest.mark.parametrize("filter_", ["[]", "null", '"x"'])
async def test_a_filter_is_an_object(sql: Session, filter_: str) -> None:
    """Nothing else has members."""
    assert "filter must be an object" in str(await sql.refusal("select asyncq.find_jobs($1::text::jsonb)", filter_))


@pytest.mark.parametrize(("most", "look"), [(0, 1), (1001, 1), (None, 1), (1, 0), (1, 1_000_001), (1, None)])
async def test_a_page_has_limits(sql: Session, most: int | None, look: int | None) -> None:
    """One call must not read all jobs."""
    refused = await sql.refusal("select asyncq.find_jobs('{}', null, true, $1, $2)", most, look)

    assert "22023" == refused.sqlstate


NASTY = ["'", "x'; drop table asyncq._jobs; --", '"', "\\", "%s", "{}", "é", "\n"]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("member", ["task", "queue", "flag", "key", "error", "has", "due_before"])
async def test_a_text_of_a_filter_is_never_part_of_the_statement(sql: Session, member: str, text: str) -> None:
    """The statement is written for the filter."""
    await add(sql)
    if member == "due_before":
        assert (
            "22023"
            == (await sql.refusal("select asyncq.find_jobs($1::text::jsonb)", json.dumps({member: text}))).sqlstate
        )
    else:
        assert [] == await found(sql, **{member: text})
    assert 1 == await sql.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize("payload", ['{"user": 7, "big": 1e999999}', '{"user": 7, "text": "\\u0000"}'])
async def test_a_payload_that_jsonb_cannot_hold_contains_nothing(sql: Session, payload: str) -> None:
    """It must not hide the others."""
    first = await add(sql, payload='{"user": 7}')
    odd = await add(sql)
    await sql.rows("update asyncq._jobs set payload = $2::text::json where id = $1", odd, payload)
    last = await add(sql, payload='{"user": 7}')

    assert ([first, last], None) == await page(sql, has={"user": 7})
    assert ([last], last) == await page(sql, has={"user": 7}, newest=True, most=1)


@pytest.mark.parametrize("newest", [False, True])
async def test_jobs_of_batches_are_found(claiming: Session, newest: bool) -> None:
    """They run. Pages in which some are rows and some are in batches follow each other."""
    sql = claiming
    ids = [await add(sql, payload=f'{{"n": {number}}}') for number in range(6)]
    await fetch(sql, 3, worker=7, form="batched")
    order = ids[::-1] if newest else ids
    pages = list[int]()
    start: int | None = None
    while True:
        some, start = await page(sql, start, newest=newest, most=2, look=2)
        pages += some
        if start is None:
            break

    assert order == pages
    assert ids[:3] == await found(sql, state="active", task="t")
    assert ids[3:] == await found(sql, state="available")
    assert ([ids[1]], [], []) == (
        await found(sql, has={"n": 1}),
        await found(sql, state="active", flag="f"),
        await found(sql, key="k"),
    )


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("look", [1, 3, 100])
@pytest.mark.parametrize("given", [{}, {"task": "a"}, {"state": "discarded"}, {"queue": "q"}, {"has": {"n": 0}}])
async def test_all_pages_are_all_jobs(sql: Session, most: int, look: int, given: dict[str, Any]) -> None:
    """However few rows a page reads."""
    ids = list[int]()
    for number in range(12):
        payload = json.dumps({"n": number % 2})
        job = await add(sql, "ab"[number % 2], queue="q" if number % 3 else None, payload=payload)
        if number % 4 == 0:
            await sql.rows("update asyncq._jobs set attempts = 25 where id = $1", job)
        wanted = {"task": number % 2 == 0, "state": number % 4 == 0, "queue": number % 3 > 0, "has": number % 2 == 0}
        if all(wanted[name] for name in given):
            ids.append(job)
    for newest in (False, True):
        pages, start = list[int](), None
        for _ in range(20):
            some, start = await page(sql, start, newest=newest, most=most, look=look, **given)
            pages += some
            if start is None:
                break

        assert (sorted(ids, reverse=newest), None) == (pages, start)


@pytest.fixture
async def large(sql: Session) -> Session:
    """20,000 jobs, of which the last three are discarded."""
    await add_many(sql, 20_000)
    await sql.rows("update asyncq._jobs set attempts = 25 where id > (select max(id) - 3 from asyncq._jobs)")
    return sql


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 300),
        ({"task": "t"}, 300),
        ({"state": "available"}, 300),
        ({"state": "discarded"}, 20),
        ({"state": "active"}, 20),
        ({"queue": "q"}, 20),
        ({"key": "k"}, 20),
        ({"task": "none"}, 2_500),
        ({"has": {"user": 7}}, 2_500),
    ],
    ids=str,
)
async def test_a_page_of_a_large_table_reads_few_rows(large: Session, given: dict[str, Any], most: int) -> None:
    """This holds without statistics of the table; few that have failed, run, or are in a queue have an index."""
    before = await large.value(READ)
    ids, start = await page(large, look=1_000, **given)
    read = await large.value(READ) - before

    assert read <= most
    if "has" in given or given.get("task") == "none":
        assert ids == []
        assert start is not None

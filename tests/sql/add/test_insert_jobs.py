"""`_insert_jobs`: new rows, in order; the fields are tested with the functions that call it."""

from tests.support.keyed import names, stored
from tests.support.session import Session

INSERT = """
select asyncq._insert_jobs($1::text[], null, $2::text[], null, null, $3::text[], null, null, null, null, $4::text[])
"""


async def test_without_outcomes_all_are_stored(sql: Session) -> None:
    """Ids in the order of the specs."""
    await sql.execute("select asyncq._store_tasks('{a,b}')")
    ids = await sql.value(INSERT, ["b", "a", "b"], ["q", None, "q"], [None, "k", None], None)

    assert sorted(ids) == ids
    assert ids == list(await stored(sql))
    assert [("b", "q", None), ("a", None, "k"), ("b", "q", None)] == [
        (row["task"], row["queue"], row["key"]) for row in (await stored(sql)).values()
    ]


async def test_with_outcomes_only_what_is_added_is_stored(sql: Session) -> None:
    """In the order of the specs."""
    await sql.execute("select asyncq._store_tasks('{a,b,c,d}')")
    outcomes = ["updated", "added", "deduplicated", "added"]
    ids = await sql.value(INSERT, ["a", "b", "c", "d"], [None] * 4, [None] * 4, outcomes)

    assert ids == list(await stored(sql))
    assert ["b", "d"] == [row["task"] for row in (await stored(sql)).values()]


async def test_a_job_is_refused_rather_than_lost(sql: Session) -> None:
    """Should a name vanish meanwhile (nothing removes one today), the caller hears of it."""
    await sql.execute("select asyncq._store_tasks('{a}')")
    errors = [
        await sql.refusal(INSERT, ["a", "gone"], [None] * 2, [None] * 2, outcomes) for outcomes in (None, ["added"] * 2)
    ]

    assert ["40001"] * 2 == [error.sqlstate for error in errors]
    assert ["a"] == await names(sql)

"""`_insert_jobs`: new rows, in order; the fields are tested with the functions that call it."""

from tests.support.keyed import names, stored
from tests.support.session import Session

INSERT = """
select asyncq._insert_jobs(array(
  select asyncq._new_job(task, null, queue, null, null, job_key => key)
  from unnest($1::text[], $2::text[], $3::text[]) with ordinality as given(task, queue, key, ord) order by ord))
"""


async def test_all_are_stored(sql: Session) -> None:
    """The ids have the order of the specs."""
    await sql.execute("select asyncq._store_tasks('{a,b}')")
    ids = await sql.value(INSERT, ["b", "a", "b"], ["q", None, "q"], [None, "k", None])

    assert sorted(ids) == ids
    assert ids == list(await stored(sql))
    assert [("b", "q", None), ("a", None, "k"), ("b", "q", None)] == [
        (row["task"], row["queue"], row["key"]) for row in (await stored(sql)).values()
    ]


async def test_a_job_is_refused_rather_than_lost(sql: Session) -> None:
    """If a name is removed meanwhile, the caller gets an error. Nothing removes one today."""
    await sql.execute("select asyncq._store_tasks('{a}')")
    error = await sql.refusal(INSERT, ["a", "gone"], [None] * 2, [None] * 2)

    assert "40001" == error.sqlstate
    assert ["a"] == await names(sql)

"""`_shown`: jobs for SQL, as rows of the view, and for Python, as documents."""

from tests.support.jobs import add
from tests.support.session import Session


async def test_both_forms_are_of_the_same_jobs_in_the_order_of_their_ids(sql: Session) -> None:
    """Unknown ids have no row."""
    ids = [await add(sql) for _ in range(3)]
    rows = await sql.rows(
        "select (touched.shown).id, (document::json ->> 'id')::bigint from asyncq._shown($1) as touched",
        [*ids[::-1], 0],
    )

    assert [(id_, id_) for id_ in ids] == [tuple(row) for row in rows]


async def test_it_sees_the_changes_of_its_caller(sql: Session) -> None:
    """A function that changes jobs and returns them is one statement for its caller."""
    await add(sql)
    await sql.execute("""
        create function asyncq.change() returns setof text language plpgsql as $$
        begin
          update asyncq._jobs set priority = 9;
          return query select document from asyncq._shown(array(select id from asyncq._jobs));
        end $$""")

    assert "9" == await sql.value("select document::json ->> 'priority' from asyncq.change() as document")

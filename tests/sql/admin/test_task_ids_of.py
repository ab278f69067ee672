"""`_task_ids_of`: names to numbers, without storing any."""

from tests.support.jobs import add
from tests.support.session import Session


async def test_names_that_are_unknown_have_no_id_and_get_none(sql: Session) -> None:
    """A read stores nothing."""
    await add(sql, "a")
    await add(sql, "b")
    known = await sql.values("select id from asyncq._tasks order by id")

    assert known == sorted(await sql.value("select asyncq._task_ids_of('{b,nobody,a,null}')"))
    assert [[], []] == [await sql.value("select asyncq._task_ids_of($1)", none) for none in ([], None)]
    assert ["a", "b"] == await sql.values("select identifier from asyncq._tasks order by 1")

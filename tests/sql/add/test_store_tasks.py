"""`_store_tasks`: a task gets a row when it is first used."""

from tests.support.keyed import names
from tests.support.session import Session

STORE = "select asyncq._store_tasks($1::text[])"


async def test_new_names_are_stored_and_known_ones_left_alone(sql: Session) -> None:
    """Each is stored once. Null is no name."""
    await sql.rows(STORE, ["a", "b", None, "a"])
    await sql.rows(STORE, ["b", "c"])

    assert ["a", "b", "c"] == await names(sql)


async def test_new_names_are_stored_in_order(sql: Session) -> None:
    """Two calls with different orders could deadlock.

    Without sorts the planner finds distinct names by hashing, so only an explicit order passes.
    """
    new = [f"n{i * 37 % 100:02}" for i in range(100)]
    await sql.execute("set local enable_sort = off")
    await sql.rows(STORE, new)

    assert sorted(new) == await sql.values("select identifier from asyncq._tasks order by id")


async def test_a_retired_name_is_in_use_again_under_its_number(sql: Session) -> None:
    """A concurrent cleanup must not remove it. The others keep their marks."""
    await sql.rows(STORE, ["a", "b", "c"])
    before = await sql.rows("select id, identifier from asyncq._tasks order by id")
    await sql.rows("update asyncq._tasks set retired_in = '1'")
    await sql.rows(STORE, ["b", "d", "a", "b"])

    assert before == await sql.rows("select id, identifier from asyncq._tasks where identifier <> 'd' order by id")
    assert ["c"] == await sql.values("select identifier from asyncq._tasks where retired_in is not null")


async def test_no_names_are_no_error(sql: Session) -> None:
    """Nulls for arrays, and arrays of nulls."""
    for nothing in (None, [], [None]):
        await sql.rows(STORE, nothing)

    assert [] == await names(sql)

"""`_register_crontabs`: recurring items are stored once, and the stored state is returned."""

from tests.support.session import Session

REGISTER = "select identifier, known_since, last_execution from asyncq._register_crontabs($1::text[])"


async def test_a_new_item_is_known_since_now(sql: Session) -> None:
    """It has no missed slots. An item that is listed twice counts once."""
    (row,) = await sql.rows(REGISTER, ["a", "a"])

    assert ("a", await sql.value("select asyncq.now()"), None) == tuple(row)


async def test_the_history_of_an_item_stays(sql: Session) -> None:
    """The first registration and the last slot are kept: slots since then are missed ones."""
    await sql.execute("insert into asyncq.known_crontabs values ('b', '2020-01-01 00:00Z', '2021-01-01 00:00Z')")

    rows = await sql.rows(REGISTER, ["b", "a"])

    assert [("a", None), ("b", 2021)] == [(row[0], row[2] and row[2].year) for row in rows]
    assert 2020 == rows[1]["known_since"].year


async def test_only_the_given_items_are_returned(sql: Session) -> None:
    """Other workers may have other crontabs."""
    await sql.rows(REGISTER, ["other"])

    assert ["a"] == await sql.values(REGISTER, ["a"])
    assert [] == await sql.rows(REGISTER, [])


async def test_a_stored_item_that_was_removed_does_not_become_known_again(sql: Session) -> None:
    """A worker that read it before would leave the name of a missing item behind."""
    await sql.execute("insert into asyncq.known_crontabs values ('b', '2020-01-01 00:00Z')")
    rows = await sql.rows("select identifier from asyncq._register_crontabs('{a}', '{b,c}')")

    assert ["a", "b"] == [row[0] for row in rows]
    assert ["a", "b"] == await sql.values("select identifier from asyncq.known_crontabs order by 1")

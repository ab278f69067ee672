"""`_store_names`: tasks and queues get a row when they are first used."""

import pytest

from tests.sql.keyed import names
from tests.sql.session import Session

STORE = "select asyncq._store_names($1::text[], $2::text[])"


async def test_new_names_are_stored_and_known_ones_left_alone(sql: Session) -> None:
    """Once each; a null is no name."""
    await sql.rows(STORE, ["a", "b", "a"], ["q", None, "q"])
    await sql.rows(STORE, ["b", "c"], ["q", "r"])

    assert ["a", "b", "c", "q", "r"] == await names(sql)


@pytest.mark.parametrize("table", ["_tasks", "_queues"])
async def test_new_names_are_stored_in_order(sql: Session, table: str) -> None:
    """Two calls that stored them in different orders would wait for each other for ever."""
    new = [f"n{i * 37 % 100:02}" for i in range(100)]
    await sql.rows(STORE, new, new)

    assert sorted(new) == await sql.values(
        f"select {'identifier' if table == '_tasks' else 'name'} from asyncq.{table} order by ctid"
    )


async def test_no_names_are_no_error(sql: Session) -> None:
    """Nulls for arrays, and arrays of nulls."""
    for nothing in (None, [], [None]):
        await sql.rows(STORE, nothing, nothing)

    assert [] == await names(sql)

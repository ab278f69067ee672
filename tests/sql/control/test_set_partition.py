"""`set_partition`: values of one key of a limit. More of it is in test_set_limit.py."""

import pytest

from tests.support.jobs import add, fetched
from tests.support.session import Session

VALUES = "select at_once, rate, weight from asyncq._partitions where key = 'acme'"


async def test_a_key_has_values_of_its_own(sql: Session) -> None:
    """The other keys keep those of the limit. They are set one after the other."""
    await sql.execute("""
        select asyncq._store_tasks('{t}');
        insert into asyncq._limits (id, name, at_once) values (7, 'tenants', 1);
        update asyncq._tasks set limit_id = 7, by = '{of}'""")
    for of in ("acme", "acme", "other", "other"):
        await add(sql, payload=f'{{"of": "{of}"}}')
    await sql.rows("select asyncq.set_partition('tenants', 'acme', at_once => 2)")
    await sql.rows("select asyncq.set_partition('tenants', 'acme', weight => 3)")

    assert (2, None, 3.0) == tuple(await sql.row(VALUES))
    assert 3 == len(await fetched(sql))


@pytest.mark.parametrize("column", ["limit_name", "key"])
async def test_a_key_of_no_limit_is_refused(sql: Session, column: str) -> None:
    """The limit is unknown, or has no key."""
    if column == "key":
        await sql.execute("insert into asyncq._limits (id, name) values (7, 'tenants')")
    error = await sql.refusal("select asyncq.set_partition('tenants', 'acme', at_once => 2)")

    assert ("22023", column) == (error.sqlstate, error.column_name)

"""`partitions`: the keys of a limit, or a queue: what waits, what runs, and why the next one does not start."""

import pytest

from tests.support.jobs import add, fetch
from tests.support.session import Session

SHOWN = "select key, waiting, running, may, why from asyncq.partitions($1)"


async def shown(sql: Session, name: str) -> list[tuple[object, ...]]:
    """The rows."""
    return [tuple(row) for row in await sql.rows(SHOWN, name)]


async def test_the_keys_of_a_limit_are_shown_with_what_runs_and_waits(sql: Session) -> None:
    """Those with most running jobs come first; a key that nothing has started of is known by its jobs."""
    await sql.execute("""
        select asyncq._store_tasks('{t}');
        insert into asyncq._limits (id, name, at_once) values (7, 'tenants', 2);
        update asyncq._tasks set limit_id = 7, by = '{of}'""")
    for of in ("a", "a", "a"):
        await add(sql, payload=f'{{"of": "{of}"}}')
    await fetch(sql)
    await add(sql, payload='{"of": "b"}')

    assert [("a", 1, 2, 2, "partition_full"), ("b", 1, 0, 2, None)] == await shown(sql, "tenants")


@pytest.mark.parametrize(
    ("column", "why"), [("paused_at = now()", "paused"), ("not_before = now() + interval '1 h'", "backed_off")]
)
async def test_a_queue_is_shown_with_the_reason_why_it_waits(sql: Session, column: str, why: str) -> None:
    """Nobody has to know of partitions."""
    await add(sql, queue="q")
    await add(sql, queue="q")
    await fetch(sql)
    await sql.execute(f"update asyncq._partitions set running = 0, {column}")

    assert [("q", 1, 0, 1, why)] == await shown(sql, "q")


@pytest.mark.parametrize(("name", "most"), [("nothing", 100), ("nothing", 0), ("nothing", 1001)])
async def test_a_name_that_is_unknown_and_a_number_out_of_range_are_refused(sql: Session, name: str, most: int) -> None:
    """An empty answer would say that all is well."""
    error = await sql.refusal("select asyncq.partitions($1, $2)", name, most)

    assert ("22023", "limit_name" if most == 100 else "most") == (error.sqlstate, error.column_name)

"""`_add_due_slots`: the jobs of some positions, and the last slot of each of their items."""

from tests.support.session import Session
from tests.support.slots import at, jobs, last

ADD = """
select ord, outcome from asyncq._add_due_slots(
  $1::bigint[], array['a', 'b', 'a', 'c'], $2::timestamptz[], array['t1', 't2', 't3', 't4'],
  array_fill(null::json, '{4}'), array_fill(null::text, '{4}'),
  array(select jsonb_build_object('max_attempts', n) from generate_series(1, 4) as n))
"""


async def test_only_the_slots_at_the_positions_are_added_and_remembered(sql: Session) -> None:
    """The rows have the call's order and their own columns. Of several slots of an item the last is remembered."""
    await sql.execute("""
        insert into asyncq.known_crontabs select name, '2020-01-01 00:00Z' from unnest('{a,b,c}'::text[]) as name""")
    rows = await sql.rows(ADD, [4, 3, 1], [at(2), at(1), at(1), at(3)])

    assert [(1, "added"), (3, "added"), (4, "added")] == [tuple(row) for row in rows]
    assert [("t1", 2), ("t3", 1), ("t4", 3)] == await jobs(sql)
    assert [1, 3, 4] == await sql.values("select max_attempts from asyncq.jobs order by id")
    assert [("a", 2), ("c", 3)] == await last(sql)

"""`prune_gates`: gates that nobody has used for a day go, in a walk; whoever comes to one meanwhile makes it anew."""

import json

import pytest

from tests.sql.session import Session, session

FIRST = -(2**63)
FILL = """
insert into asyncq._gate (key, used_at)
select i, now() - case when i % 2 = 0 then interval '25 h' else interval '23 h' end
from generate_series({first}, {last}) as i
"""
GATES = "select key from asyncq._gate order by key"


async def prune_gates(sql: Session, after: int = FIRST, most: int = 100) -> tuple[int, int | None]:
    """A step of the walk. Returns how many gates were removed, and where it goes on."""
    (row,) = await sql.run("prune_gates", after, most)
    return tuple(row)


async def test_gates_that_were_not_used_for_a_day_go(sql: Session) -> None:
    """A key that is used each day costs one row, one that was used once none."""
    await sql.execute(FILL.format(first=-3, last=4))

    assert (4, 4) == await prune_gates(sql)
    assert [-3, -1, 1, 3] == await sql.values(GATES)


async def test_a_walk_goes_over_all_gates_a_few_at_a_time(sql: Session) -> None:
    """Also where nothing is to be removed, and to its end."""
    await sql.execute(FILL.format(first=1, last=7))
    steps = []
    at: int | None = FIRST
    while at is not None:
        steps.append(await prune_gates(sql, at, most=3))
        at = steps[-1][1]

    assert [(1, 3), (2, 6), (0, 7), (0, None)] == steps
    assert [1, 3, 5, 7] == await sql.values(GATES)


async def test_a_gate_that_somebody_passes_is_skipped(dsn: str, own: Session) -> None:
    """Its row is locked, and it is used at this moment."""
    await own.execute("insert into asyncq._gate (key, used_at) values (2, now() - interval '2 days')")
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("update asyncq._gate set used_at = clock_timestamp()")
        first = await prune_gates(own)

    assert ((0, 2), (0, 2)) == (first, await prune_gates(own))


@pytest.mark.parametrize("analysed", [False, True])
async def test_a_step_reads_its_few_gates_only(own: Session, analysed: bool) -> None:
    """Of 20,000."""
    await own.execute(FILL.format(first=1, last=20000))
    if analysed:
        await own.execute("analyze asyncq._gate")
    await prune_gates(own, 19_000, 10)
    answer = await own.value("explain (analyze, buffers, format json) select * from asyncq._prune_gates(15000, 100)")
    (plan,) = json.loads(answer)

    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] <= 1000

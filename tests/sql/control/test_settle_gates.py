"""`_settle_gates`: when a gate counts by itself again, after a limit got a total or other tasks."""

from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, fetch, fetched
from tests.support.session import Session

SETTLE = "select asyncq._settle_gates()"
STATE = """
select recount_since is null, recount_since = asyncq._never(), running
from asyncq._partitions where id = asyncq._gate((select limit_id from asyncq._tasks where identifier = 't'))"""


async def state(sql: Session) -> tuple[object, ...]:
    """Whether the gate is settled, whether no call has seen the change yet, and the number that it counts."""
    return tuple(await sql.row(STATE))


async def test_a_gate_is_settled_by_a_transaction_after_the_one_that_saw_the_change(sql: Session) -> None:
    """The first call only writes down its number, and this transaction has not ended."""
    await declare(sql, t={"total": 3})
    new = await state(sql)
    found = [await sql.value(SETTLE), await sql.value(SETTLE)]
    seen = await state(sql)
    await sql.execute("update asyncq._partitions set recount_since = '3' where recount_since is not null")
    found.append(await sql.value(SETTLE))

    assert ((False, True, 0), (False, False, 0)) == (new, seen)
    assert [1, 0, 1] == found
    assert (True, None, 0) == await state(sql)


async def test_a_gate_that_settles_counts_the_claims(sql: Session) -> None:
    """Whatever number its row had. From then on a fetch adds to it."""
    await declare(sql, t={"total": 3})
    for _ in range(4):
        await add(sql)
    await fetch(sql, 2)
    await sql.execute("update asyncq._partitions set recount_since = '3', running = 7 where recount_since is not null")
    await sql.execute(SETTLE)
    settled = await state(sql)

    assert (True, None, 2) == settled
    assert 1 == len(await fetched(sql))
    assert (True, None, 3) == await state(sql)


async def test_a_gate_without_a_total_is_left_alone(sql: Session) -> None:
    """It counts nothing, and begins to when the limit gets a total again."""
    await declare(sql, t={"total": 3})
    await sql.execute("select asyncq.set_limit('t', unlimited => '{total}')")

    assert 0 == await sql.value(SETTLE)
    assert (False, True, 0) == await state(sql)

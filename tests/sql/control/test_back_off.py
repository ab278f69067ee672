"""`_back_off`: a partition starts nothing for a while."""

from datetime import timedelta

from tests.support.jobs import add, fetch, fetched
from tests.support.session import Session

BACK_OFF = "select partition_id, limit_name, key, until - asyncq.now() as wait from asyncq._back_off($1, $2)"


async def test_a_queue_waits_for_the_longest_time_that_was_asked_for(sql: Session) -> None:
    """The running job runs on; the next one starts after that time. The limit of queues has no name."""
    await add(sql, queue="q")
    await fetch(sql)
    partition = await sql.value("select id from asyncq._partitions")
    asked = [tuple(await sql.row(BACK_OFF, [partition] * len(delays), delays)) for delays in ([5.0, 30.0], [10.0])]
    await sql.execute("update asyncq._jobs set locked_by = null, locked_at = null, lock_token = null")
    await sql.execute("update asyncq._partitions set running = 0")
    await sql.execute("select asyncq._wake_partitions(array(select id from asyncq._jobs))")
    moment = await sql.value("select asyncq.now()")
    found = [await fetched(sql, now=moment + timedelta(seconds=seconds)) for seconds in (29, 31)]

    assert [(partition, None, "q", timedelta(seconds=30))] * 2 == asked
    assert [0, 1] == [len(claims) for claims in found]


async def test_a_partition_without_a_row_has_nothing_that_could_wait(sql: Session) -> None:
    """No job of it has ever started."""
    assert [] == await sql.rows(BACK_OFF, [7], [30.0])

"""`_pass_on_ends`: ends that no fetch has counted are counted, where jobs of another task wait for them."""

from tests.support.jobs import add, complete, fetch, fetched
from tests.support.session import Session

ENDS = "select partition from asyncq._wakeups where freed > 0"
OF_T = (
    "delete from asyncq._wakeups where task_id = (select id from asyncq._tasks where identifier = '{}') and freed = 0"
)


async def test_a_job_of_another_task_is_woken_by_an_end_that_did_not_see_it(sql: Session) -> None:
    """It was added at the same time. Perhaps no worker is left that knows the task of the job that has ended."""
    await add(sql, "t", queue="q")
    claims = await fetch(sql)
    await complete(sql, claims)
    other = await add(sql, "other", queue="q")
    await sql.execute(OF_T.format("other"))  # A fetch that still saw the partition full has deleted it.
    before = await sql.values(ENDS)
    passed = await sql.value("select asyncq._pass_on_ends()")
    await sql.execute(OF_T.format("t"))

    assert (1, 1, []) == (len(before), passed, await sql.values(ENDS))
    assert [other] == await fetched(sql)
    assert [] == await sql.rows("select * from asyncq._partition_counts() where jobs <> running")


async def test_ends_are_left_alone_where_all_jobs_are_of_one_task(sql: Session) -> None:
    """The next fetch counts them."""
    for _ in range(2):
        await add(sql, "t", queue="q")
    await complete(sql, await fetch(sql))
    before = await sql.values(ENDS)

    assert (1, 0) == (len(before), await sql.value("select asyncq._pass_on_ends()"))
    assert before == await sql.values(ENDS)

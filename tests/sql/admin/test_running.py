"""`running`: the jobs that workers have claimed."""

from tests.support.jobs import add, fetch
from tests.support.session import Session

READ = "select id, task, queue, worker_id, host, attempt, max_attempts, is_named, is_cancelled from asyncq.running()"


async def test_rows_and_members_of_batches_are_read(claiming: Session) -> None:
    """Those that their worker named have started. A waiting job is not among them."""
    sql = claiming
    batched, row = await add(sql), await add(sql, "u", queue="q", max_attempts=3)
    await sql.rows("""
        insert into asyncq._workers (id, lease, pid, concurrency, host, tasks) overriding system value
        values (7, '1 h', 1, 8, 'here', '{t,u}')""")
    await fetch(sql, 1, worker=7, token=3, tasks=["t"], form="batched")
    await fetch(sql, 1, worker=7, token=4, tasks=["u"])
    await add(sql)
    before = [tuple(line) for line in await sql.rows(READ)]
    token = await sql.value("select lock_token from asyncq._batches")
    await sql.rows("update asyncq._workers set started_claims = array[$1::text]", f"{batched}/{token}")
    await sql.rows("update asyncq._jobs set cancelled_at = now() where locked_by is not null")
    after = [tuple(line) for line in await sql.rows(READ)]
    await sql.rows("delete from asyncq._workers")

    assert [
        (batched, "t", None, 7, "here", 1, 25, False, False),
        (row, "u", "q", 7, "here", 1, 3, False, False),
    ] == before
    assert [(True, False), (False, True)] == [line[-2:] for line in after]


async def test_a_worker_without_a_row_has_no_host(claiming: Session) -> None:
    """Its jobs are returned some minutes later."""
    await add(claiming)
    await fetch(claiming, worker=9)

    assert [(9, None, False)] == [
        tuple(line) for line in await claiming.rows("select worker_id, host, is_named from asyncq.running()")
    ]

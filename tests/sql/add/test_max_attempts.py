"""`_max_attempts`: the attempts of an add, or the default."""

from tests.support.session import Session


async def test_without_a_number_it_is_the_default_of_the_table(sql: Session) -> None:
    """Which rows get that are inserted by hand."""
    await sql.execute("select asyncq._store_tasks('{t}')")
    default = await sql.value("""
        insert into asyncq._jobs (run_at, created_at, updated_at, task_id, payload)
        select asyncq.now(), asyncq.now(), asyncq.now(), id, '{}' from asyncq._tasks returning max_attempts""")
    found = await sql.row("select asyncq._max_attempts(3), asyncq._max_attempts(null)")

    assert (3, default) == tuple(found)

"""`_locks_since`: since when a lost lock proves a death."""

from tests.support.session import Session


async def test_an_unrecorded_run_of_the_server_begins_now(sql: Session) -> None:
    """After a crash or a promotion the record is gone, since its table is unlogged."""
    await sql.execute("delete from asyncq._server_runs")

    assert await sql.value("select asyncq._locks_since() >= statement_timestamp()")
    assert "u" == await sql.value(
        "select relpersistence::text from pg_class where oid = 'asyncq._server_runs'::regclass"
    )


async def test_a_noted_run_counts_from_its_note_but_not_from_before_the_start_of_the_server(sql: Session) -> None:
    """A clean restart keeps the note."""
    await sql.execute("delete from asyncq._server_runs; insert into asyncq._server_runs default values")
    noted = await sql.value("select asyncq._locks_since() = since from asyncq._server_runs")
    await sql.execute("update asyncq._server_runs set since = '-infinity'")

    assert (True, True) == (noted, await sql.value("select asyncq._locks_since() = pg_postmaster_start_time()"))

"""`now` and `clock`: the only functions that read the time."""

from tests.support.session import Session


async def test_now_is_the_start_of_the_transaction_and_clock_the_current_time(sql: Session) -> None:
    """Jobs of one transaction become due together. Key locks and notifications need the current time."""
    first = await sql.row(
        "select asyncq.now() = pg_catalog.now() as same, asyncq.now() as now, asyncq.clock() as clock"
    )
    second = await sql.row("select asyncq.now() as now, asyncq.clock() as clock")

    assert (True, True) == (first["same"], first["now"] == second["now"])
    assert first["now"] < first["clock"] < second["clock"]


async def test_both_clock_functions_are_inlined(sql: Session) -> None:
    """A function call costs ten times as much, for each row."""
    plan = "\n".join(await sql.values("explain (verbose, costs off) select asyncq.now(), asyncq.clock()"))

    assert "Output: now(), clock_timestamp()" in plan


async def test_replaced_clock_functions_move_the_time_of_adds_and_states(sql: Session) -> None:
    """Tests move the time by replacing both functions in their own schema; cached plans follow."""
    await sql.execute("select asyncq.add_job('t', run_at := now() + interval '1 day')")
    before = await sql.value("select asyncq._state(job) from asyncq._jobs as job")
    await sql.execute("""
        create or replace function asyncq.now() returns timestamptz language sql stable
        as $$ select pg_catalog.now() + interval '2 days' $$""")
    await sql.execute("select asyncq.add_job('t')")

    assert ("scheduled", "available") == (
        before,
        await sql.value("select asyncq._state(job) from asyncq._jobs as job order by id limit 1"),
    )
    assert [False, True] == await sql.values("select run_at = now() + interval '2 days' from asyncq._jobs order by id")

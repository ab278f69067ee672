"""`now` and `clock`: the two doors of time."""

from tests.support.session import Session


async def test_now_is_the_start_of_the_transaction_and_clock_the_instant(sql: Session) -> None:
    """Jobs of one transaction become due together; key locks and notifications look at the instant."""
    first = await sql.row(
        "select asyncq.now() = pg_catalog.now() as same, asyncq.now() as now, asyncq.clock() as clock"
    )
    second = await sql.row("select asyncq.now() as now, asyncq.clock() as clock")

    assert (True, True) == (first["same"], first["now"] == second["now"])
    assert first["now"] < first["clock"] < second["clock"]


async def test_both_doors_are_inlined(sql: Session) -> None:
    """A door that is called as a function costs ten times as much, for each row that is looked at."""
    plan = "\n".join(await sql.values("explain (verbose, costs off) select asyncq.now(), asyncq.clock()"))

    assert "Output: now(), clock_timestamp()" in plan


async def test_a_replaced_door_moves_the_time_of_adds_and_states(sql: Session) -> None:
    """Tests travel by replacing both doors in a schema of their own; cached plans follow."""
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

"""`_move_jobs`: jobs from before a pause, or from before their task had a limit, get their partitions."""

import anyio
import pytest

from asyncq.testing import temporary_schema
from tests.support.jobs import BATCH_FROM, add, add_many, complete, fetch, fetched
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LIMIT = "insert into asyncq._limits (id, name, at_once) values (9, 'tenants', 2)"
LIMITED = """
update asyncq._tasks set limit_id = 9, by = '{tenant}', unmoved_since = pg_current_xact_id() where identifier = 't'
"""
OTHER_LIMIT = """
insert into asyncq._limits (id, name, at_once) values (10, 'all', 2);
update asyncq._tasks set limit_id = 10, by = null, unmoved_since = pg_current_xact_id() where identifier = 't'
"""
UNLIMITED = "update asyncq._tasks set limit_id = null, by = null, unmoved_since = null where identifier = 't'"
# The split of a batch waits for a lock of the test.
SPLIT_WAITS = """
create function asyncq.wait_for_test() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock(1); return old; end $$;
create trigger waits before delete on asyncq._batches for each row execute function asyncq.wait_for_test()
"""
IS_BLOCKED = "select exists (select from pg_locks where not granted)"
UNMOVED = "select count(*) from asyncq._jobs where partition is null"


async def move(sql: Session, page: int = 3) -> int:
    """Walk over all jobs once, as a worker does. Returns how many jobs had another partition."""
    found, after = 0, 0
    while after is not None:
        row = await sql.row("select * from asyncq._move_jobs($1, $2)", after, page)
        found, after = found + row["found"], row["last_id"]
    return found


async def test_jobs_from_before_a_limit_start_within_it_once_they_are_moved(sql: Session) -> None:
    """A fetch finds them only in their partitions, also those that are due later or are retried."""
    await sql.execute(LIMIT)
    await add_many(sql, 7)
    later = await add(sql, run_at="asyncq.now() + interval '1 h'")
    other = await add(sql, "other")
    await sql.execute(LIMITED)
    before = await fetched(sql)
    moves = [await move(sql), await move(sql)]
    first = await fetch(sql)
    await complete(sql, first)

    assert ([other], [8, 0]) == (before, moves)
    assert (2, 2) == (len(first), len(await fetched(sql)))
    assert later in await sql.values("select id from asyncq._jobs where partition is not null")
    assert [] == await sql.rows("select * from asyncq.violations() where law = 'wrong_count'")


@pytest.mark.parametrize("form", BATCH_FROM)
@pytest.mark.parametrize("is_known", [False, True], ids=["without a row", "with a row"])
async def test_running_jobs_count_from_now_on(sql: Session, form: str, is_known: bool) -> None:
    """Their ends free the partition. A batch is split, because its other jobs may belong to other tasks."""
    await sql.execute(LIMIT)
    await add_many(sql, 2)
    await add(sql, "other")
    running = await fetch(sql, form=form)
    await add_many(sql, 2)
    if is_known:
        await sql.execute("insert into asyncq._partitions (id) values (asyncq._partition(9::smallint, ''))")
    await sql.execute(LIMITED)
    await move(sql)
    beside = await fetched(sql)
    await complete(sql, running)

    assert ([], 2) == (beside, len(await fetched(sql)))
    assert [] == await sql.rows("select * from asyncq.violations() where law = 'wrong_count'")


@pytest.mark.parametrize("form", BATCH_FROM)
async def test_running_jobs_are_counted_by_the_first_page(sql: Session, form: str) -> None:
    """However many wait before them: those that are moved would start beside them."""
    await sql.execute(LIMIT)
    await add_many(sql, 5, priority="1")
    running = [await add(sql), await add(sql)]
    claims = await fetch(sql, 2, form=form)
    await sql.execute(LIMITED)
    await sql.rows("select * from asyncq._move_jobs(0, 3)")

    assert running == sorted(claim["id"] for claim in claims)
    assert [2] == await sql.values("select running from asyncq._partitions")
    assert (2, []) == (await sql.value(UNMOVED), await fetched(sql))


async def test_the_jobs_of_a_paused_task_are_moved_out_of_the_way(sql: Session) -> None:
    """`pause` moves the first thousand itself. A resumed task has no limit again; its jobs stay where they are."""
    await add_many(sql, 1003)
    await sql.rows("select asyncq.pause(task => 't')")
    after_pause = await sql.value(UNMOVED)
    moved = await move(sql, 100)
    await add(sql)
    await sql.rows("select asyncq.resume(task => 't')")
    await add(sql)

    assert (3, 3, 1) == (after_pause, moved, await sql.value(UNMOVED))
    assert 1005 == len(await fetched(sql, 2000))


async def test_a_locked_job_is_found_by_the_next_walk(dsn: str) -> None:
    """So is one that an open add has stored. The walk that finds none must have begun after all these transactions."""
    async with temporary_schema(dsn) as name, session(dsn, name) as one, session(dsn, name) as two:
        locked = await add(one)
        async with two.connection.transaction():
            await two.rows("select from asyncq._jobs for update")
            open_job = await add(two)
            await one.rows("select asyncq.pause(task => 't')")
            during = await move(one)
            horizon = await one.value("select horizon from asyncq._move_jobs(0, 100)")
            await one.run("end_moves", horizon)
            marked = await one.value("select count(*) from asyncq._tasks where unmoved_since is not null")
        after = [await move(one), await move(one)]

        async def has_ended() -> bool:
            await one.run("end_moves", await one.value("select horizon from asyncq._move_jobs(0, 100)"))
            return await one.value("select not exists (select from asyncq._tasks where unmoved_since is not null)")

        assert (1, 1, [2, 0]) == (during, marked, after)
        await wait_until(has_ended, description="the end of the walks")  # Others may have transactions too.
        assert [locked, open_job] == await one.values(
            "select id from asyncq._jobs where partition is not null order by id"
        )


async def test_running_jobs_whose_task_loses_its_limit_during_the_walk_stay_where_they_are(dsn: str) -> None:
    """Another worker declares no limit while this one splits the batches: there is no partition to count them in."""
    async with temporary_schema(dsn) as name, session(dsn, name) as one, session(dsn, name) as two:
        await one.execute(LIMIT)
        await add(one)
        await one.execute(LIMITED)
        await add_many(one, 2)
        running = await fetch(one, form="batched")
        await one.execute(SPLIT_WAITS)
        await one.execute(OTHER_LIMIT)
        await two.execute("select pg_advisory_lock(1)")
        async with anyio.create_task_group() as group:
            group.start_soon(move, one)
            await wait_until(lambda: two.value(IS_BLOCKED), description="the walk to split the batch")
            await two.execute(UNLIMITED)
            await two.execute("select pg_advisory_unlock(1)")

        assert [2] == await one.values("select running from asyncq._partitions")
        await complete(one, running)
        assert [] == await one.rows("select * from asyncq.violations()")


async def test_a_job_that_was_stored_after_the_last_walk_is_found_in_time(sql: Session) -> None:
    """An add may have looked for the limit before, and stored its job long after."""
    await sql.execute(LIMIT)
    job = await add(sql)
    await sql.execute(LIMITED.replace("unmoved_since = pg_current_xact_id()", "unmoved_since = null"))

    assert 1 == await move(sql)
    assert [job] == await fetched(sql)

"""The small statements: names, workers, one job, the time."""

import json

from asyncq.store.arrays import array_text
from tests.support.jobs import add, add_many, claimed, fetch
from tests.support.session import Session

NO_LOCK = False


async def test_unknown_tasks_are_named(sql: Session) -> None:
    """It reads only the first thousand waiting jobs of either kind."""
    for task in ("mine", "b", "a", "b"):
        await add(sql, task)
    await add(sql, "c", queue="q")
    await add(sql, "claimed")
    await sql.execute("update asyncq._jobs set locked_by = 1, locked_at = now(), lock_token = 1 where id = lastval()")
    mine = await sql.values("select id from asyncq._tasks where identifier = 'mine'")

    assert ["a", "b", "c"] == [row["identifier"] for row in await sql.run("unknown_tasks", array_text(mine))]


async def test_unknown_tasks_beyond_the_first_thousand_jobs_are_not_searched(sql: Session) -> None:
    """The check is a part of each round of maintenance."""
    await add_many(sql, 1000)
    await add(sql, "far")

    assert ["t"] == [row["identifier"] for row in await sql.run("unknown_tasks", "{}")]


async def test_the_clock_is_the_current_time_and_not_the_start_of_the_transaction(sql: Session) -> None:
    """A second call shows progress."""
    await sql.execute("begin")
    [[first, _]], [[second, _]] = await sql.run("clock"), await sql.run("clock")

    assert await sql.value("select now() <= $1 and $1 < $2 and $2 <= clock_timestamp()", first, second)


async def test_a_worker_registers_beats_and_leaves(sql: Session) -> None:
    """Its row says that it lives."""
    (row,) = await sql.run("register_worker", 30.0, 123, 10, "host", ["a", "b"], 0, None, [])
    stored = await sql.row(
        "select *, last_seen = started_at as fresh, lease = interval '30 s' as leased from asyncq._workers"
    )
    beaten = await sql.run("beat", row["id"], NO_LOCK, [], "{}")
    seen = await sql.value("select last_seen > $1 from asyncq._workers", stored["last_seen"])
    left = await sql.run("remove_worker", row["id"])

    assert (123, 10, "host", ["a", "b"], True) == (
        *(stored[name] for name in ("pid", "concurrency", "host", "tasks")),
        stored["leased"],
    )
    assert ([(None, None)], True, [(row["id"],)]) == ([tuple(b) for b in beaten], seen, [tuple(b) for b in left])
    assert ([], []) == (await sql.run("beat", row["id"], NO_LOCK, [], "{}"), await sql.run("remove_worker", row["id"]))


async def test_a_worker_is_found_until_it_was_declared_dead(sql: Session) -> None:
    """The worker's own connection asks this while the server is read only."""
    alive, dead, removed = [
        (await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, []))[0]["id"] for _ in range(3)
    ]
    await sql.rows("update asyncq._workers set died_at = clock_timestamp() where id = $1", dead)
    await sql.rows("delete from asyncq._workers where id = $1", removed)
    await sql.execute("set default_transaction_read_only = on")
    found = [(await sql.run("find_worker", worker_id))[0]["found"] for worker_id in (alive, dead, removed)]

    assert ["known", "gone", "gone"] == found


async def test_a_beat_names_the_running_jobs_of_its_worker_that_were_cancelled(sql: Session) -> None:
    """It returns those that were cancelled, with the claim, since the notification may have been lost."""
    (row,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    mine, also_mine, spared, foreign = [await add(sql) for _ in range(4)]
    await fetch(sql, 3, worker=row["id"], token=9)
    await fetch(sql, worker=row["id"] + 1, token=9)
    await sql.rows("select from asyncq.cancel_jobs($1)", [mine, also_mine, foreign])

    assert [(mine, 9), (also_mine, 9)] == sorted(
        tuple(found) for found in await sql.run("beat", row["id"], NO_LOCK, [], "{}")
    )
    assert spared in await claimed(sql)


async def test_a_beat_reports_which_jobs_are_stuck(sql: Session) -> None:
    """The list of workers shows them until the next beat."""
    (row,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    listed = []
    for stuck in ([7, 8], []):
        await sql.run("beat", row["id"], NO_LOCK, [], array_text(stuck))
        listed += [worker["stuck"] for worker in await sql.run("list_workers")]

    assert [[7, 8], []] == listed


async def test_the_number_of_a_worker_is_never_used_again(sql: Session) -> None:
    """Claims name it, and may outlive its row."""
    (first,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.run("remove_worker", first["id"])
    (second,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])

    assert first["id"] < second["id"]


async def test_leases_use_the_real_clock(sql: Session) -> None:
    """A test that moves the time must not declare live workers dead."""
    await sql.execute("""
        create or replace function asyncq.now() returns timestamptz
        language sql stable as $$ select '2000-01-01'::timestamptz $$;
        create or replace function asyncq.clock() returns timestamptz
        language sql as $$ select '2000-01-01'::timestamptz $$;""")
    (row,) = await sql.run("register_worker", 30.0, 1, 1, "h", [], 0, None, [])
    await sql.run("beat", row["id"], NO_LOCK, [], "{}")

    assert await sql.value("select last_seen > now() - interval '1 min' from asyncq._workers")


async def test_one_job_is_read_by_its_id_or_its_key(sql: Session) -> None:
    """The document includes the payload, which the view leaves out since it may be large or private."""
    job = await sql.value("""select id from asyncq.add_job('t', '{"a": 1}', job_key := 'k')""")
    (by_id,) = await sql.run("get_job", job)
    (by_key,) = await sql.run("get_job_by_key", "k")

    assert (job, '{"a": 1}') == (json.loads(by_id["document"])["id"], json.loads(by_id["document"])["payload"])
    assert by_id["document"] == by_key["document"]
    assert ([], []) == (await sql.run("get_job", job + 1), await sql.run("get_job_by_key", "K"))


async def test_a_moved_clock_is_detected(sql: Session) -> None:
    """A worker refuses a schema whose clock was moved."""
    before = {row["source"] for row in await sql.run("clock_functions")}
    await sql.execute("""
        create or replace function asyncq.now() returns timestamptz
        language sql stable as $$ select '2000-01-01'::timestamptz $$""")
    after = {row["source"] for row in await sql.run("clock_functions")}

    assert {"select pg_catalog.now()", "select pg_catalog.clock_timestamp()"} == before
    assert before != after


async def test_workers_may_be_woken_by_hand(sql: Session) -> None:
    """The answer has a single row."""
    assert 1 == len(await sql.run("wake_workers"))
    assert [] == await fetch(sql)


async def test_a_release_finds_the_migration_that_breaks_it(sql: Session) -> None:
    """The migration with the highest requirement decides.

    One that only removes unused objects breaks fewer releases.
    """
    await sql.execute("""
        insert into asyncq._migrations (id, name, checksum, needs, release)
        values (101, 'a', '', 101, '7.0.0'), (102, 'b', '', null, null), (103, 'c', '', 102, '8.0.0')""")
    found = [[tuple(row) for row in await sql.run("breaking_since", known)] for known in (100, 101, 102, 103)]

    assert [[("c", "8.0.0")], [("c", "8.0.0")], [], []] == found

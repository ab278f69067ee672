"""Partitions change between the snapshot of a statement and its locks, or its commit: each case is forced.

Two promises are attacked: no more jobs of a partition run than its limit allows, and no job of it is forgotten. After
each test the laws hold, and each job that is left can be fetched.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest

from tests.support.gate import Gate
from tests.support.jobs import BATCH_FROM, add, change, claim_next, claimed, complete, fetch, fetched
from tests.support.session import KeptConnections, Session, session
from tests.support.waiting import wait_until

OTHER = 2
THOROUGH = True
DUE = "asyncq.now() - interval '1 min'"
LAWS = "select law, said from asyncq.violations() where law in ('wrong_count', 'over_limit', 'stranded_partition')"
IS_BLOCKED = "select exists (select from pg_locks where not granted)"
LEVELS = ("read_committed", "repeatable_read", "serializable")

Claims = list[dict[str, Any]]
End = Callable[[Session, Claims], Awaitable[object]]


async def _complete(sql: Session, claims: Claims) -> None:
    assert len(claims) == len(await complete(sql, claims, worker=OTHER))


async def _claim_next(sql: Session, claims: Claims) -> None:
    for claim in claims:  # it is for claims in rows
        await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
    settled, taken = await claim_next(sql, claims, worker=OTHER)
    assert (len(claims), []) == (len(settled), taken)


async def _settle_rest(sql: Session, claims: Claims) -> None:
    assert len(claims) == len(await change(sql, claims, worker=OTHER, attempts=1, delay_s=3600.0, error="e"))


async def _complete_in_transaction(sql: Session, claims: Claims) -> None:
    """As the transaction of a handler ends, one job at a time."""
    for claim in claims:
        await sql.run("split_batch_of_claim", OTHER, claim["id"], claim["lock_token"])
        async with sql.connection.transaction():
            (held,) = await sql.run("lock_claim", OTHER, claim["id"], claim["lock_token"])
            arguments = (OTHER, claim["id"], claim["lock_token"], held["xid"], None, None, None, None)
            (row,) = await sql.run("complete_claim", *arguments)
        assert "completed" == row[0]


async def _rescue(sql: Session, claims: Claims) -> None:
    await sql.run("rescue_jobs", THOROUGH, None)
    await _put_off(sql)


async def _return_lost(sql: Session, claims: Claims) -> None:
    await sql.run("return_lost", OTHER, [claim["lock_token"] for claim in claims])
    await _put_off(sql)


async def _force_unlock(sql: Session, claims: Claims) -> None:
    await sql.rows("select from asyncq.force_unlock_workers($1)", [str(OTHER)])
    await _put_off(sql)


async def _put_off(sql: Session) -> None:
    """Jobs whose claims were taken back are ready at once. Let them be due later, so that only their slots matter."""
    ids = await sql.values("select id from asyncq._jobs where locked_by is null")
    await sql.rows("select from asyncq.reschedule_jobs($1, now() + interval '1 h')", ids)


ENDS: dict[str, End] = {
    "completed": _complete,
    "claim_next": _claim_next,
    "settled": _settle_rest,
    "in a transaction": _complete_in_transaction,
    "rescued": _rescue,
    "returned": _return_lost,
    "unlocked": _force_unlock,
}
BY_ANY_END = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
ALONE = {name: end for name, end in ENDS.items() if end is not _claim_next}
BY_AN_END_ALONE = pytest.mark.parametrize("end", ALONE.values(), ids=ALONE)
LIMITS = pytest.mark.parametrize("at_once", [1, 3])


@pytest.fixture(autouse=True, params=[1000, 1], ids=["row by row", "batched"])
def claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch claims in rows, or in batches."""
    monkeypatch.setitem(BATCH_FROM, "rows", request.param)


@pytest.fixture(autouse=True)
async def laws(sql: Session) -> AsyncIterator[None]:
    """The laws hold after the test. Then the jobs that are left run one after the other, each by its own service."""
    yield
    assert [] == [tuple(row) for row in await sql.rows(LAWS)]
    assert [] == await left_after_all_have_run(sql)


@pytest.fixture
async def third(kept_connections: KeptConnections, schema: str) -> AsyncIterator[Session]:
    """A third session, that watches the others."""
    async with kept_connections.session(schema) as opened:
        yield opened


async def left_after_all_have_run(sql: Session) -> list[int]:
    """Run all jobs, by services that know one task each. Returns the ids of those that nobody got."""
    await sql.execute("select from asyncq._rescue_jobs(true)")
    await sql.execute("""
        select from asyncq.reschedule_jobs((select array_agg(id) from asyncq._jobs where run_at > now()), now())""")
    idle = 0
    while idle < 3:
        ran = 0
        for task in await sql.values("select identifier from asyncq._tasks order by identifier"):
            taken = await fetch(sql, 10, worker=OTHER, tasks=[task])
            await complete(sql, taken, worker=OTHER)
            ran += len(taken)
        idle = 0 if ran else idle + 1
        if not ran:
            await anyio.sleep(0.025)  # a wakeup may be 20 ms ahead
    return await sql.values(
        "select id from asyncq._jobs where locked_by is not null or attempts < max_attempts order by id"
    )


async def allow(sql: Session, at_once: int | None) -> None:
    """Set the limit of all queues."""
    await sql.rows("update asyncq._limits set at_once = $1 where id = 1", at_once)


async def add_to(sql: Session, task: str = "t", queue: str = "q", **options: Any) -> int:
    """Add a job of the queue that has been due for a while, so that the laws look at it."""
    return await add(sql, task, **{"queue": queue, "run_at": DUE} | options)


async def known(sql: Session, queue: str = "q") -> None:
    """Let the partition of a queue have a row."""
    await add_to(sql, queue=queue)
    await complete(sql, await fetch(sql))


async def fetched_soon(sql: Session, **options: Any) -> list[int]:
    """Fetch twice: the first fetch may only find out which tasks have jobs."""
    return await fetched(sql, **options) or await fetched(sql, **options)


async def running(sql: Session) -> Mapping[str, int]:
    """How many jobs of each queue run, by their claims."""
    return dict(
        await sql.rows("select queue, count(*)::int from asyncq._all_jobs() where locked_by is not null group by 1")
    )


KINDS = {
    "of the same kind": (1, {}),
    "of another priority": (3, {"priority": 5}),
    "of another task": (1, {"task": "late"}),
}


@BY_ANY_END
@pytest.mark.parametrize(("at_once", "kind"), KINDS.values(), ids=KINDS)
async def test_a_job_that_is_added_while_an_end_is_open_is_not_forgotten(
    sql: Session, other: Session, end: End, at_once: int, kind: dict[str, Any]
) -> None:
    """The end has not seen the job. The fetch that sees the job finds the partition full, and drops its wakeup."""
    await allow(sql, at_once)
    await add(sql, "late")
    for _ in range(at_once):
        await add_to(sql)
    claims = [claim for claim in await fetch(other, worker=OTHER) if claim["queue"]]
    async with other.connection.transaction():
        await end(other, claims[:1])
        late = await add_to(sql, **kind)
        during = await fetched(sql)

    assert ([], [late]) == (during, await fetched_soon(sql))


@BY_AN_END_ALONE
@pytest.mark.parametrize("waiting", [0, 1], ids=["no other job", "another job of it"])
async def test_a_job_of_a_mixed_queue_is_found_without_a_worker_for_the_task_that_ended(
    sql: Session, other: Session, end: End, waiting: int
) -> None:
    """The end has not seen the job, and its wakeup is for the service that is gone. Rounds pass it on."""
    await add(sql, "mine")
    for _ in range(1 + waiting):
        await add_to(sql, "theirs")
    claims = [claim for claim in await fetch(other, worker=OTHER, tasks=["theirs"]) if claim["queue"]]
    await fetched(sql, tasks=["mine"])
    async with other.connection.transaction():
        await end(other, claims)
        late = await add_to(sql, "mine")
        during = await fetched(sql, tasks=["mine"])
    await sql.run("pass_on_ends")

    assert ([], [late]) == (during, await fetched_soon(sql, tasks=["mine"]))


async def test_ends_that_are_passed_on_while_a_fetch_counts_them_are_counted_once(
    gate: Gate, fetcher: Session, sql: Session, other: Session
) -> None:
    """The fetch has seen the wakeup of the end, and finds it gone once it has locked the partition."""
    await allow(sql, 2)
    for _ in range(2):
        await add_to(sql, "theirs")
    claims = await fetch(other, worker=OTHER)
    mine = [await add_to(sql, "mine") for _ in range(3)]
    await complete(other, claims[:1], worker=OTHER)
    taken = await gate.during(fetched(fetcher, tasks=["mine"]), other.run("pass_on_ends"))

    assert mine[:1] == taken + await fetched_soon(sql, tasks=["mine"])


@LIMITS
async def test_a_slot_that_one_service_freed_is_seen_by_another_service(
    sql: Session, other: Session, at_once: int
) -> None:
    """The first job behind it is for a service that is gone. It is passed by."""
    await allow(sql, at_once)
    for _ in range(at_once):
        await add_to(sql, "theirs")
    claims = await fetch(other, worker=OTHER)
    await add_to(sql, "theirs")
    mine = await add_to(sql, "mine")
    before = await fetched(sql, tasks=["mine"])
    await complete(other, claims, worker=OTHER)

    assert ([], [mine]) == (before, await fetched(sql, tasks=["mine"]))


async def test_jobs_of_one_add_that_are_due_one_after_the_other_are_each_seen(sql: Session) -> None:
    """The wakeup of the first one is gone when the second one is due."""
    await sql.execute("""
        select asyncq.add_jobs(array_agg(
          ('t', null, 'q', now() + i * interval '10 s', null, null, 0, null, null, null)::asyncq.job_spec order by i))
        from generate_series(-1, 1) as i""")
    moment = await sql.value("select now()")
    taken = []
    for seconds in (0, 0, 0, 11):
        now = await sql.value("select $1::timestamptz + make_interval(secs => $2)", moment, float(seconds))
        claims = await fetch(sql, now=now)
        await complete(sql, claims)
        taken.append(len(claims))

    assert [1, 1, 0, 1] == taken


async def test_a_fetch_that_was_called_before_an_add_of_two_moments_leaves_a_wakeup(sql: Session) -> None:
    """Of two jobs of one add, the second one is due after the moment of the fetch, which sees both."""
    await allow(sql, 3)
    await sql.execute("""
        select asyncq.add_jobs(array_agg(
          ('t', null, 'q', now() - (i * interval '1 min'), null, null, 0, null, null, null)::asyncq.job_spec))
        from unnest(array[2, 5]) as i""")
    early = await fetched(sql, now=await sql.value("select now() - interval '3 min'"))

    assert (1, 1) == (len(early), len(await fetched(sql)))


async def test_an_open_fetch_that_found_a_partition_empty_does_not_stop_others(sql: Session, other: Session) -> None:
    """Its jobs were cancelled, and it had no row. A job that is added to it meanwhile is found afterwards."""
    ids = [await add_to(sql, queue=queue) for queue in "ab"]
    await sql.rows("select from asyncq.cancel_jobs($1)", ids)
    free = await add_to(sql, queue="free")
    await sql.execute("set lock_timeout = '100ms'")
    async with other.connection.transaction():
        assert [free] == await fetched(other, worker=OTHER)
        late = [await add_to(sql), await add_to(sql, queue="a")]

        assert late[:1] == await fetched(sql)

    assert late[1:] == await fetched(sql)


async def test_a_locked_job_behind_a_forbidden_one_is_seen_when_it_is_free(sql: Session, other: Session) -> None:
    """The worker may not run the first job. An administrator holds the second one, and rolls back."""
    await known(sql)
    await add_to(sql, flags=["f"])
    second = await add_to(sql)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows("select from asyncq._jobs where id = $1 for update", second)
    during = await fetched(sql, forbidden=["f"])
    await transaction.rollback()
    await anyio.sleep(0.025)

    assert ([], [second]) == (during, await fetched(sql, forbidden=["f"]))


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("task", ["t", "late"])
async def test_a_job_that_the_snapshot_of_an_end_does_not_show_is_not_forgotten(
    sql: Session, other: Session, level: str, task: str
) -> None:
    """The transaction of a handler began before the add. Its end looks for the next job by that snapshot."""
    await add(sql, "late", run_at="asyncq.now() + interval '1 h'")
    await add_to(sql)
    claims = await fetch(other, worker=OTHER)
    await other.run("split_batch_of_claim", OTHER, claims[0]["id"], claims[0]["lock_token"])
    async with other.connection.transaction(isolation=level):
        await other.rows("select from asyncq._jobs")
        late = await add_to(sql, task)
        during = await fetched(sql)
        await _complete_in_transaction(other, claims)

    assert ([], [late]) == (during, await fetched_soon(sql))


@pytest.mark.parametrize("level", LEVELS)
async def test_an_add_that_does_not_see_an_end_is_found(sql: Session, other: Session, level: str) -> None:
    """It inserts its own wakeup, whatever it knows of the partition."""
    await add_to(sql)
    claims = await fetch(sql)
    async with other.connection.transaction(isolation=level):
        await other.rows("select from asyncq._jobs")
        await complete(sql, claims)
        before = await fetched(sql)
        late = await add_to(other)

    assert ([], [late]) == (before, await fetched(sql))


async def test_an_add_that_is_rolled_back_leaves_nothing(sql: Session, other: Session) -> None:
    """Neither a job nor a wakeup."""
    transaction = other.connection.transaction()
    await transaction.start()
    await add_to(other)
    during = await fetched(sql)
    await transaction.rollback()

    assert ([], []) == (during, await fetched(sql))
    assert [] == await sql.values("select partition from asyncq._wakeups")


@BY_AN_END_ALONE
async def test_an_end_that_is_rolled_back_frees_nothing(sql: Session, other: Session, end: End) -> None:
    """The slot is free only once."""
    ids = [await add_to(sql) for _ in range(2)]
    claims = await fetch(other, worker=OTHER)
    transaction = other.connection.transaction()
    await transaction.start()
    await end(other, claims)
    await transaction.rollback()
    before = await fetched(sql)
    await _complete(other, claims)

    assert ([], ids[1:]) == (before, await fetched(sql))


IS_KNOWN = pytest.mark.parametrize("is_known", [True, False], ids=["known", "new"])


@LIMITS
@IS_KNOWN
async def test_a_fetch_that_another_one_overtook_starts_no_more_than_are_allowed(
    gate: Gate, fetcher: Session, sql: Session, other: Session, at_once: int, is_known: bool
) -> None:
    """Its snapshot shows a free partition, or none."""
    await allow(sql, at_once)
    if is_known:
        await known(sql)
    ids = [await add_to(sql) for _ in range(2 * at_once)]
    taken = [await gate.during(fetched(fetcher), fetched(other, worker=OTHER)), await claimed(sql)]

    assert [[], ids[:at_once]] == taken


async def test_a_partition_that_changed_before_its_lock_counts_what_a_fetch_starts(
    gate: Gate, fetcher: Session, sql: Session, other: Session
) -> None:
    """An update by the place of the row in the snapshot would miss the version that was locked."""
    await allow(sql, 3)
    await known(sql)
    ids = [await add_to(sql) for _ in range(5)]
    taken = await gate.during(fetched(fetcher), fetched(other, 1, worker=OTHER))

    assert (ids[1:3], []) == (taken, await fetched(sql))


@pytest.mark.parametrize("most", [1, 2, 3, 5])
async def test_a_wakeup_that_only_the_snapshot_still_shows_is_not_relied_on(
    gate: Gate, fetcher: Session, sql: Session, other: Session, most: int
) -> None:
    """Another fetch has deleted it with its job. A fetch inserts no second wakeup for a job."""
    await allow(sql, 6)
    await known(sql)
    ids = [await add_to(sql, run_at=f"{DUE} + {number} * interval '1 ms'") for number in range(6)]
    taken = await gate.during(fetched(fetcher, 1), fetched(other, most, worker=OTHER))
    rest = [job for _ in range(6) for job in await fetched(sql, 1)]

    assert [] == await sql.rows(LAWS)
    assert sorted(ids[most:]) == sorted(taken + rest)


async def test_wakeups_that_a_fetch_deleted_which_saw_no_room_are_not_relied_on(
    gate: Gate, fetcher: Session, sql: Session, other: Session
) -> None:
    """It has not seen two ends, and commits after the snapshot of a fetch that has, and takes one job only.

    The wakeup of the next job is behind those that this fetch looks at.
    """
    await allow(sql, 3)
    await known(sql)
    for _ in range(3):
        await add_to(sql)
    claims = await fetch(sql, worker=OTHER)
    ids = [await add_to(sql, run_at=f"asyncq.now() - interval '{seconds} s'") for seconds in (90, 30, 20)]
    full = other.connection.transaction()
    await full.start()
    assert [] == await fetched(other)
    for _ in range(30):
        await add_to(sql, queue="r")
    await complete(sql, claims[:2], worker=OTHER)
    taken = await gate.during(fetched(fetcher, 1), full.commit())
    assert (3, ids[:1], []) == (len(claims), taken, await sql.rows(LAWS))
    assert ids[1] in await fetched(sql)


async def test_a_count_that_becomes_what_the_snapshot_shows_is_written(
    gate: Gate, fetcher: Session, sql: Session, other: Session
) -> None:
    """A condition on the new value would be judged on the version of the snapshot first, and that is the same."""
    await known(sql)
    job = await add_to(sql)
    gone = await add_to(sql, "mine")
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", gone)
    shown = await sql.values("select running from asyncq._partitions")
    # It counts the end, and takes nothing.
    hear = fetched(other, worker=OTHER, tasks=["mine"])
    taken = await gate.during(fetched(fetcher, tasks=["t"]), hear)

    assert ([1], [job]) == (shown, taken)
    assert [1] == await sql.values("select running from asyncq._partitions")


async def test_a_job_and_its_wakeup_are_due_at_one_moment(sql: Session, other: Session) -> None:
    """The transaction of the fetch began before the add: by its start the job is not due, by the instant it is."""
    async with other.connection.transaction():
        await other.rows("select now()")
        job = await add_to(sql, run_at="asyncq.now()")
        early = await fetched(other, worker=OTHER)

    assert ([], [job]) == (early, await fetched(sql))


@BY_AN_END_ALONE
@LIMITS
async def test_a_slot_that_is_freed_before_the_lock_is_used_once(
    gate: Gate, fetcher: Session, sql: Session, other: Session, end: End, at_once: int
) -> None:
    """The fetch does not see the end. The next fetch does."""
    await allow(sql, at_once)
    for _ in range(at_once):
        await add_to(sql)
    claims = await fetch(other, worker=OTHER)
    following = [await add_to(sql) for _ in range(at_once + 1)]
    before = await gate.during(fetched(fetcher), end(other, claims))

    taken = before + await fetched_soon(sql)
    if end in (_rescue, _return_lost, _force_unlock):  # they have put all jobs off
        assert [] == taken
    else:
        assert following[:at_once] == taken


@IS_KNOWN
async def test_a_job_that_an_administrator_holds_is_found_after_a_rollback(
    sql: Session, other: Session, is_known: bool
) -> None:
    """Nobody says that it was left as it was."""
    await allow(sql, 3)
    if is_known:
        await known(sql)
    first, second = [await add_to(sql) for _ in range(2)]
    transaction = other.connection.transaction()
    await transaction.start()
    await other.rows("select from asyncq._jobs where id = $1 for no key update", first)
    during = await fetched(sql)
    await transaction.rollback()
    await anyio.sleep(0.025)

    assert ([second], [first]) == (during, await fetched(sql))


BETWEEN = {
    "paused": ("select asyncq.pause(queue => 'q')", 0),
    "lowered": ("update asyncq._partitions set at_once = 1", 1),
    "raised": ("update asyncq._partitions set at_once = 3", 3),
    "backed off": ("update asyncq._partitions set not_before = pg_catalog.now() + interval '50 ms'", 0),
}


@pytest.mark.parametrize(("change", "started"), BETWEEN.values(), ids=BETWEEN)
async def test_a_partition_that_is_changed_before_its_lock_is_used_as_it_is(
    gate: Gate, fetcher: Session, sql: Session, other: Session, change: str, started: int
) -> None:
    """The fetch decides by the version of the row that it has locked."""
    await allow(sql, 2)
    await known(sql)
    for _ in range(4):
        await add_to(sql)

    assert started == len(await gate.during(fetched(fetcher), other.execute(change)))
    await sql.execute("select asyncq.resume(queue => 'q')")


CHANGED = {
    "paused": "select asyncq.pause(queue => 'q')",
    "lowered": "update asyncq._partitions set at_once = 1, set_at = pg_catalog.clock_timestamp()",
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
async def test_one_next_job_at_most_follows_a_partition_that_is_changed_meanwhile(
    gate: Gate, fetcher: Session, sql: Session, other: Session, change: str
) -> None:
    """The statement that ends a claim does not lock the partition: it decides by its snapshot."""
    await allow(sql, 2)
    for _ in range(5):
        await add_to(sql)
    claims = await fetch(fetcher)
    for claim in claims:
        await sql.run("split_batch_of_claim", 1, claim["id"], claim["lock_token"])
    _, first = await gate.during(claim_next(fetcher, claims[:1]), other.execute(change))
    _, second = await claim_next(sql, first or claims[1:], token=3)

    assert (1, 0) == (len(first), len(second))
    await sql.execute("select asyncq.resume(queue => 'q')")


@LIMITS
async def test_a_next_job_and_a_fetch_together_start_no_more_than_are_allowed(
    gate: Gate, fetcher: Session, sql: Session, other: Session, at_once: int
) -> None:
    """The next job takes the slot over, so the fetch finds none, before it and after it."""
    await allow(sql, at_once)
    for _ in range(2 * at_once + 1):
        await add_to(sql)
    claims = await fetch(fetcher)
    for claim in claims:
        await sql.run("split_batch_of_claim", 1, claim["id"], claim["lock_token"])
    settled, taken = await gate.during(claim_next(fetcher, claims[:1]), fetched(other, worker=OTHER))

    assert (1, 1, []) == (len(settled), len(taken), await fetched(sql))
    assert {"q": at_once} == await running(sql)


async def test_a_worker_that_may_not_run_a_job_leaves_its_wakeup(sql: Session, other: Session) -> None:
    """It does not know the task, or forbids a flag."""
    await known(sql)
    await add(sql, "mine", run_at="asyncq.now() + interval '1 h'")
    flagged = await add_to(sql, flags=["f"])
    before = [await fetched(other, worker=OTHER, forbidden=["f"]), await fetched(other, worker=OTHER, tasks=["mine"])]

    assert ([[], []], [flagged]) == (before, await fetched(sql))


@LIMITS
async def test_ends_beside_a_row_that_was_removed_do_not_count_twice(sql: Session, at_once: int) -> None:
    """Somebody has deleted the row of an idle partition, whose ends no fetch had counted."""
    await allow(sql, at_once)
    ids = [await add_to(sql) for _ in range(3 * at_once)]
    await complete(sql, await fetch(sql))
    await sql.execute("delete from asyncq._partitions")
    taken = [await fetched(sql), await fetched(sql)]

    assert [ids[at_once : 2 * at_once], []] == taken


@IS_KNOWN
async def test_a_fetch_that_dies_with_its_locks_leaves_all_as_it_was(
    dsn: str, sql: Session, schema: str, is_known: bool
) -> None:
    """The server ends its connection before the commit."""
    if is_known:
        await known(sql)
    job = await add_to(sql)
    async with session(dsn, schema) as dying:
        await dying.execute("begin")
        assert [job] == await fetched(dying, worker=OTHER)
        during = await fetched(sql)
        await sql.rows("select pg_terminate_backend($1, 5000)", dying.connection.get_server_pid())

    assert ([], [job]) == (during, await fetched(sql))


async def test_a_claim_that_is_lost_while_it_waits_for_a_fetch_does_not_back_off(
    sql: Session, other: Session, third: Session
) -> None:
    """A rescue is faster. Whether the worker still has the claim is asked once the partition is locked."""
    job = await add_to(sql)
    (claim,) = await fetch(sql)
    answers: list[Any] = []

    async def back_off() -> None:
        answers.append(await other.run("back_off", 1, [job], [claim["lock_token"]], [30.0]))

    async with anyio.create_task_group() as group, sql.connection.transaction():
        await sql.rows("select from asyncq._partitions for no key update")
        group.start_soon(back_off)
        await wait_until(lambda: third.value(IS_BLOCKED), description="the back-off to wait for the partition")
        await third.execute("select asyncq.force_unlock_workers(array['1'])")

    assert ([[]], [job]) == (answers, await fetched(sql))


async def allow_in_all(sql: Session, total: int) -> None:
    """Give the task `l` a limit of all its jobs together."""
    await sql.execute(f"""
        select asyncq._store_tasks(array['l']);
        insert into asyncq._limits (id, name, total) values (7, 'l', {total});
        insert into asyncq._partitions (id) values (asyncq._gate(7::smallint));
        update asyncq._tasks set limit_id = 7 where identifier = 'l'""")


async def test_a_fetch_that_another_one_overtook_starts_no_more_than_a_total_allows(
    gate: Gate, fetcher: Session, sql: Session, other: Session
) -> None:
    """The jobs have many queues, each of which is free."""
    await allow_in_all(sql, 2)
    for queue in "abcd":
        await add_to(sql, "l", queue)
    await gate.during(fetched(fetcher), fetched(other, 1, worker=OTHER))
    await fetched(sql)

    assert 2 == len(await claimed(sql))


async def test_a_job_that_is_added_while_an_end_that_frees_a_total_is_open_is_not_forgotten(
    sql: Session, other: Session
) -> None:
    """It has another queue."""
    await allow_in_all(sql, 1)
    await add_to(sql, "l", "a")
    claims = await fetch(other, worker=OTHER)
    async with other.connection.transaction():
        await _complete(other, claims)
        late = await add_to(sql, "l", "b")
        during = await fetched(sql)

    assert ([], [late]) == (during, await fetched_soon(sql))


async def test_a_next_job_of_another_task_frees_the_total_of_the_one_before(sql: Session) -> None:
    """Both have one queue, but the next job does not count for the total."""
    await allow_in_all(sql, 1)
    await add_to(sql, "l", "a")
    following = [await add_to(sql, "t", "a"), await add_to(sql, "l", "b")]
    claims = await fetch(sql)
    for claim in claims:
        await sql.run("split_batch_of_claim", 1, claim["id"], claim["lock_token"])
    _, taken = await claim_next(sql, claims)

    assert following == sorted([*(claim["id"] for claim in taken), *await fetched_soon(sql)])

"""`fetch_jobs`: which jobs a fetch claims, and in which order. Races are in tests/store/test_fetch_races.py."""

import json
from datetime import timedelta

import pytest

from asyncq.domain.moment import datetime_of, read_moment
from asyncq.store.arrays import array_text
from asyncq.store.statements import query
from tests.support.jobs import add, add_many, change, complete, fetch, fetched, locked_queues
from tests.support.session import Session

WINDOW = 22
"""At how many wakeups a fetch of one job looks first."""

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])


@FORMS
async def test_a_fetch_claims_at_most_the_requested_number(sql: Session, form: str) -> None:
    """The worker has no room for more."""
    await add_many(sql, 5)

    assert [2, 2, 1, 0] == [len(await fetch(sql, 2, form=form)) for _ in range(4)]


async def test_a_fetch_for_nothing_claims_nothing(sql: Session) -> None:
    """A limit of 0 is a limit."""
    await add(sql)
    await add(sql, queue="q")

    assert [] == await fetch(sql, 0)


@FORMS
async def test_lower_priorities_come_first_then_earlier_times_then_lower_ids(sql: Session, form: str) -> None:
    """Equal jobs run in the order in which they were added."""
    late = await add(sql, priority=1)
    second = await add(sql, run_at="now() - interval '1 s'")
    third = await add(sql)
    fourth = await add(sql)
    first = await add(sql, priority=-1)
    early = await add(sql, priority=0, run_at="now() - interval '1 min'")

    assert [[first, early], [second, third], [fourth, late]] == [await fetched(sql, 2, form=form) for _ in range(3)]


@FORMS
async def test_the_order_does_not_depend_on_the_plan(sql: Session, form: str) -> None:
    """One plan has it from an index, others need an explicit order."""
    ids = [await add(sql, run_at=f"now() - interval '{seconds} s'") for seconds in range(3)]
    await sql.execute("set local enable_indexscan = off; set local enable_bitmapscan = off")

    assert ids[:0:-1] == await fetched(sql, 2, form=form)


async def test_jobs_of_queues_and_others_are_one_order(sql: Session) -> None:
    """A queue neither gives a job precedence nor takes it away. At one time and priority any may be the first."""
    ids = [
        await add(sql, queue=queue, run_at=f"now() - interval '{9 - place} s'")
        for place, queue in enumerate(["q1", None, "q2", None, "q3"])
    ]

    assert [ids[:2], ids[2:4], ids[4:]] == [await fetched(sql, 2) for _ in range(3)]


@pytest.mark.parametrize("follower", [None, "q2"])
@pytest.mark.parametrize(
    "leaving",
    [
        "asyncq.add_job('t', job_key => 'k')",
        "asyncq.add_job('t', queue_name => 'q', job_key => 'k', priority => 1)",
        "asyncq.add_job('t', queue_name => 'q', job_key => 'k', run_at => now() + interval '1 h')",
        "asyncq.remove_job('k')",
        "asyncq.cancel_jobs(array(select id from asyncq._jobs where key = 'k'))",
    ],
)
async def test_a_queue_has_the_place_of_its_first_job_when_an_earlier_one_has_left(
    sql: Session, leaving: str, follower: str | None
) -> None:
    """The wakeup of the earlier one is still there: it gives the next job of its queue no precedence."""
    await sql.execute("select asyncq.add_job('t', queue_name => 'q', job_key => 'k', priority => -1)")
    first = await add(sql, queue=follower, run_at="now() - interval '2 s'")
    second = await add(sql, queue="q", run_at="now() - interval '1 s'")
    await sql.execute(f"select {leaving}")

    assert [first] == await fetched(sql, 1)
    assert [second] == await fetched(sql, 1)


async def test_many_priorities_are_one_order(sql: Session) -> None:
    """Each one is a probe of the index, and none is left out."""
    await add_many(sql, 60, priority="-i", queue="case when i % 2 = 0 then 'q' || i end")

    assert list(range(60, 0, -1)) == [-row["priority"] for row in await fetch(sql, 60)]


async def test_a_claim_is_written_into_the_row_and_nothing_else_is(sql: Session) -> None:
    """Attempts are counted when they end. updated_at and revision record changes, not runs."""
    job = await add(sql)
    before = dict(await sql.row("select * from asyncq._jobs"))
    await fetch(sql, worker=7, token=42)
    after = dict(await sql.row("select * from asyncq._jobs"))
    written = {name: after[name] for name in after if after[name] != before[name]}

    assert {"locked_by": 7, "lock_token": 42, "locked_at": before["run_at"]} == written
    assert job == after["id"]


async def test_a_claim_has_the_values_of_the_row(sql: Session) -> None:
    """The executor reads nothing else."""
    await sql.execute("""
        select asyncq.add_job('t', '{"a": 1}', 'q', flags := '{f}', max_attempts := 9, priority := 3,
          options := '{"meta": {"m": 1}}');
        update asyncq._jobs set attempts = 2, interruptions = 1, revision = 4, last_error = 'e', key = 'k'""")
    stored = dict(await sql.row("select * from asyncq._jobs"))
    (claim,) = await fetch(sql, token=5)
    moments = {name: datetime_of(read_moment(claim[name])) for name in ("run_at", "created_at", "updated_at")}

    others = {"lock_token", "expires_s", "deadline_s"}
    assert {name: stored[name] for name in claim if name not in others} == {
        name: value for name, value in (claim | moments).items() if name not in others
    }
    assert (5, {"f": True}, {"m": 1}) == (claim["lock_token"], json.loads(claim["flags"]), json.loads(claim["meta"]))


async def test_a_job_is_due_at_its_time_and_not_before(sql: Session) -> None:
    """The time counts to the microsecond."""
    due = await add(sql, run_at="now()")
    await add(sql, run_at="now() + interval '1 us'")
    due_queued = await add(sql, run_at="now()", queue="a")
    await add(sql, run_at="now() + interval '1 us'", queue="b")

    assert [due, due_queued] == await fetched(sql)


async def test_the_time_may_be_given(sql: Session) -> None:
    """Tests that move the clock give it. Otherwise the server's clock decides."""
    job = await add(sql, run_at="now() + interval '1 h'")
    moment = await sql.value("select now() + interval '1 h'")

    assert [] == await fetched(sql, now=moment - timedelta(microseconds=1))
    assert [job] == await fetched(sql, now=moment)
    assert moment == await sql.value("select locked_at from asyncq._jobs")


async def test_claimed_and_discarded_jobs_are_left_alone(sql: Session) -> None:
    """One runs, the other has no attempts left."""
    await add(sql)
    await add(sql, queue="q")
    await fetch(sql)
    await add(sql, max_attempts=1)
    await add(sql, max_attempts=1, queue="r")
    await sql.execute("update asyncq._jobs set attempts = 1 where max_attempts = 1")

    assert [] == await fetched(sql)


async def test_tasks_that_the_worker_does_not_know_are_left_alone(sql: Session) -> None:
    """Other workers may know them."""
    await add(sql, "other")
    mine = await add(sql, "mine")
    await add(sql, "other", queue="q")
    also_mine = await add(sql, "mine", queue="q")

    assert [mine, also_mine] == await fetched(sql, tasks=["mine"])


@pytest.mark.parametrize("queue", [None, "q"])
async def test_jobs_with_a_forbidden_flag_are_left_alone(sql: Session, queue: str | None) -> None:
    """A single forbidden flag is enough."""
    await add(sql, flags=["bad"], queue=queue)
    await add(sql, flags=["good", "bad"], queue=queue)
    good = await add(sql, flags=["good"], queue=queue)
    plain = await add(sql, queue=queue and "other")

    assert [good, plain] == await fetched(sql, forbidden=["bad", "worse"])


async def test_with_no_flag_forbidden_flags_mean_nothing(sql: Session) -> None:
    """An empty list forbids nothing."""
    jobs = [await add(sql, flags=["f"]), await add(sql)]

    assert jobs == await fetched(sql, forbidden=[])


@FORMS
async def test_a_fetch_begins_after_the_cursor(sql: Session, form: str) -> None:
    """While it drains a backlog, a worker does not read again over its taken jobs."""
    jobs = [await add(sql, priority=priority) for priority in (-1, 0, 0, 0, 1)]
    moment = await sql.value("select now()")

    assert jobs[2:] == await fetched(sql, form=form, after=(0, moment, jobs[1]))


@pytest.mark.parametrize(
    ("priority", "seconds", "expected"),
    [
        (-5, 0, [0, 1, 2]),
        (0, -2, [0, 1, 2]),
        (0, -1, [1, 2]),
        (0, 0, [2]),
        (0, 5, [2]),
        (1, -9, [2]),
        (1, 0, []),
        (9, 0, []),
    ],
)
@FORMS
async def test_a_cursor_is_a_place_in_the_order(
    sql: Session, form: str, priority: int, seconds: int, expected: list[int]
) -> None:
    """It need not be the place of a job that is still there."""
    jobs = [
        await add(sql, run_at="now() - interval '1 s'"),
        await add(sql, run_at="now()"),
        await add(sql, priority=1, run_at="now() - interval '1 s'"),
    ]
    moment = await sql.value("select now()") + timedelta(seconds=seconds)

    assert [jobs[place] for place in expected] == await fetched(sql, form=form, after=(priority, moment, jobs[-1]))


async def test_the_cursor_does_not_affect_queues(sql: Session) -> None:
    """The next job of a queue that was busy when the cursor passed is behind it."""
    job = await add(sql, queue="q", priority=-1)
    await add(sql, priority=-1)

    assert [job] == await fetched(sql, after=(0, await sql.value("select now()"), 10**9))


@FORMS
async def test_draining_with_a_cursor_takes_each_job_once_in_order(sql: Session, form: str) -> None:
    """The place of the last job of one fetch is where the next one begins."""
    await add_many(sql, 50, priority="i % 3", run_at="now() - interval '1 s' * (i % 7)")
    order: list[tuple[int, object, int]] = []
    after = (None, None, None)
    while claims := await fetch(sql, 7, form=form, after=after):
        order += [(claim["priority"], datetime_of(read_moment(claim["run_at"])), claim["id"]) for claim in claims]
        after = order[-1]

    assert sorted(order) == order
    assert 50 == len(set(order))


async def test_of_each_queue_one_job_is_taken(sql: Session) -> None:
    """It is the first in order."""
    first, _ = await add(sql, queue="a"), await add(sql, queue="a")
    await add(sql, queue="b", priority=1)
    second = await add(sql, queue="b")

    assert [first, second] == await fetched(sql)
    assert ["a", "b"] == await locked_queues(sql)
    assert [] == await fetched(sql)


async def test_the_next_job_of_a_queue_is_taken_when_the_first_is_settled(sql: Session) -> None:
    """The outcome of the first does not matter."""
    jobs = [await add(sql, queue="q") for _ in range(4)]
    first = await fetch(sql)
    await complete(sql, first)
    second = await fetch(sql)
    await change(sql, second, attempts=1, delay_s=60.0)
    third = await fetch(sql)
    await change(sql, third, attempts=32767)

    assert [[jobs[0]], [jobs[1]], [jobs[2]]] == [[row["id"] for row in claims] for claims in (first, second, third)]
    assert [jobs[3]] == await fetched(sql)


async def test_a_returned_job_is_the_first_of_its_queue_again(sql: Session) -> None:
    """Unlocking is all that a return does."""
    jobs = [await add(sql, queue="q") for _ in range(2)]
    await change(sql, await fetch(sql))

    assert jobs[:1] == await fetched(sql, token=2)


async def test_a_busy_queue_does_not_affect_other_jobs(sql: Session) -> None:
    """Jobs of other queues and jobs without a queue still run."""
    await add(sql, queue="busy")
    await fetch(sql)
    await add(sql, queue="busy")
    free = [await add(sql, queue="free"), await add(sql)]

    assert free == await fetched(sql)


async def test_a_job_that_cannot_run_does_not_block_its_queue(sql: Session) -> None:
    """The next job of the queue runs if the first one is scheduled, retryable, discarded, unknown or forbidden."""
    passed = [
        await add(sql, queue="later", run_at="now() + interval '1 h'"),
        await add(sql, queue="retry"),
        await add(sql, queue="dead", max_attempts=1),
        await add(sql, "other", queue="unknown"),
        await add(sql, queue="forbidden", flags=["f"]),
    ]
    await sql.execute(f"""
        update asyncq._jobs set attempts = 1 where id in ({passed[1]}, {passed[2]});
        update asyncq._jobs set run_at = now() + interval '1 h' where id = {passed[1]}""")
    next_ones = [await add(sql, queue=queue) for queue in ("later", "retry", "dead", "unknown", "forbidden")]

    assert next_ones == await fetched(sql, tasks=["t"], forbidden=["f"])


async def busy(sql: Session, queues: int, jobs: int) -> None:
    """Occupy queues `busy1` .. with a running job and a backlog of older ones."""
    await add_many(sql, queues, queue="'busy' || i")
    assert queues == len(await fetch(sql, queues, worker=99, token=99))
    await add_many(sql, jobs, queue=f"'busy' || (i % {queues} + 1)", run_at="now() - interval '1 h'")


@pytest.mark.parametrize("queues", [1, 50])
async def test_a_free_queue_is_found_behind_a_deep_backlog_of_busy_ones(sql: Session, queues: int) -> None:
    """They are full, and take nothing of what the fetch may claim."""
    await busy(sql, queues, 3 * WINDOW)
    free = await add(sql, queue="free")

    assert [free] == await fetched(sql, 1)


@pytest.mark.parametrize(("backlog", "limit"), [(1, 1), (20, 10)])
async def test_a_free_queue_behind_a_short_backlog_is_found_beside_very_many_queues(
    sql: Session, backlog: int, limit: int
) -> None:
    """Jobs that are not due yet are not looked at."""
    await add_many(sql, 10_000, queue="'later' || i", run_at="now() + interval '1 h'")
    await busy(sql, 1, backlog)
    free = await add(sql, queue="free")

    assert [free] == await fetched(sql, limit)


async def test_behind_a_deep_backlog_the_order_of_free_queues_is_kept(sql: Session) -> None:
    """Full queues take nothing of what a fetch may claim."""
    await busy(sql, 2, 3 * WINDOW)
    await add_many(sql, 20, queue="'free' || i", priority="i * 7 % 20")
    order = [(await fetch(sql, 1))[0]["priority"] for _ in range(20)]

    assert list(range(20)) == order


async def test_behind_a_deep_backlog_a_queue_still_gives_its_first_job_that_can_run(sql: Session) -> None:
    """All conditions apply there too."""
    await busy(sql, 1, 3 * WINDOW)
    await add(sql, queue="free", run_at="now() + interval '1 h'")
    await add(sql, "other", queue="free")
    await add(sql, queue="free", flags=["f"])
    await add(sql, queue="free", priority=1)
    first = await add(sql, queue="free")

    assert [first] == await fetched(sql, 1, tasks=["t"], forbidden=["f"])
    assert [] == await fetched(sql, 1, tasks=["t"], forbidden=["f"])


async def pages_of_a_fetch(sql: Session) -> int:
    """How many pages a fetch of ten jobs reads; it claims nothing."""
    (task,) = await sql.values("select id from asyncq._tasks where identifier = 't'")
    transaction = sql.connection.transaction()
    await transaction.start()
    text = "explain (analyze, buffers, format json) " + query("fetch_jobs", sql.schema)
    arguments = [1, 77, 10, array_text([task]), *[None] * 6, 100, "{}", False]
    (told,) = await sql.connection.fetch(text, *arguments)
    await transaction.rollback()
    (found,) = json.loads(told[0])
    return found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"]


async def test_behind_a_deep_backlog_future_jobs_of_a_queue_are_not_read(sql: Session) -> None:
    """A queue may hold all that is planned for a month."""
    await sql.execute("set local enable_seqscan = off; set local enable_sort = off; set local enable_bitmapscan = off")
    await busy(sql, 1, 3 * WINDOW)
    await add(sql, queue="later", run_at="now() + interval '1 h'")
    before = await pages_of_a_fetch(sql)
    await add_many(sql, 20_000, queue="'later'", run_at="now() + interval '1 h'")

    assert before + 60 > await pages_of_a_fetch(sql)


async def test_behind_a_deep_backlog_jobs_without_a_queue_are_found(sql: Session) -> None:
    """They have a scan of their own."""
    await busy(sql, 1, 3 * WINDOW)
    plain = await add(sql)

    assert [plain] == await fetched(sql, 1)


async def test_a_job_that_precedes_the_backlog_comes_first(sql: Session) -> None:
    """The window of the fetch contains it."""
    await busy(sql, 2, 3 * WINDOW)
    await add(sql, queue="free")
    urgent = await add(sql, queue="urgent", priority=-1)

    assert [urgent] == await fetched(sql, 1)


async def test_every_one_of_very_many_free_queues_has_its_turn(sql: Session) -> None:
    """They are more than one fetch looks at, and none is skipped for ever."""
    await busy(sql, 1, 600)
    await add_many(sql, 1500, queue="'free' || i")
    seen: set[str] = set()
    for _ in range(30):
        claims = await fetch(sql, 100)
        seen |= {claim["queue"] for claim in claims}
        await change(sql, claims, attempts=1, delay_s=60.0)

    assert 1500 == len(seen)


async def test_a_settled_job_leaves_no_lock_on_its_queue(sql: Session) -> None:
    """A queue that stays locked never runs a job again."""
    await add_many(sql, 20, queue="'q' || i % 4")
    while claims := await fetch(sql, 3):
        await complete(sql, claims)

    assert ([], 0) == (await locked_queues(sql), await sql.value("select count(*) from asyncq._jobs"))

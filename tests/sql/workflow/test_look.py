"""`_look`: each way to end a job, and what becomes of the jobs that wait for it."""

from collections.abc import Awaitable, Callable

import pytest

from tests.sql.settle.test_tell_watchers import ENDS
from tests.support.jobs import add, add_many, complete, fetch, fetched, settle_rest
from tests.support.keyed import KEY
from tests.support.session import Session, session
from tests.support.waits import broken_laws, left, look, state, states, wait_for

Act = Callable[[Session, int], Awaitable[object]]
Expected = dict[str, str | None]

COMPLETED: Expected = {"wait": "available", "cancel": "available", "run": "available"}
FAILED: Expected = {"wait": "pending", "cancel": None, "run": "available"}
CANCELLED: Expected = {"wait": None, "cancel": None, "run": "available"}
OF_STATE = {"completed": COMPLETED, "discarded": FAILED, "cancelled": CANCELLED}


async def expire(sql: Session, job: int) -> None:
    """Let it expire, where no fetch comes to it."""
    await sql.rows("update asyncq._jobs set expires_at = now() where id = $1", job)
    await sql.rows("select from asyncq._expire_jobs(10)")


async def discard(sql: Session, job: int) -> None:
    """Leave it no attempt."""
    await sql.rows("select from asyncq.permanently_fail_jobs(array[$1::bigint])", job)
    await look(sql)


async def prune(sql: Session, job: int) -> None:
    """It was discarded long ago."""
    await discard(sql, job)
    await sql.rows("update asyncq._jobs set updated_at = '2001-01-01' where id = $1", job)
    await sql.run("prune", 1.0, 1.0, 10)


async def clean_up(sql: Session, job: int) -> None:
    """Remove discarded jobs."""
    await discard(sql, job)
    await sql.rows("select from asyncq.cleanup('{DELETE_PERMAFAILED_JOBS}')")


async def remove(sql: Session, job: int) -> None:
    """Remove it by its key."""
    await sql.rows("update asyncq._jobs set key = $2 where id = $1", job, KEY)
    await sql.rows("select from asyncq.remove_job($1)", KEY)


async def remove_matching(sql: Session, _: int) -> None:
    """Remove it by its task."""
    await sql.rows("""select from asyncq.change_matching('{"task": "t"}', 'remove', up_to_id => 1000000)""")


async def replace(sql: Session, job: int) -> None:
    """Another add replaces it under its unique policy."""
    await sql.rows("update asyncq._jobs set unique_key = '\\x01' where id = $1", job)
    await sql.rows(
        "select from asyncq._replace_jobs(array[asyncq._new_job('t', null, null, null, $1::text::jsonb)], now())",
        '{"unique_key": "\\\\x01"}',
    )


async def complete_claim(sql: Session, job: int) -> None:
    """Its handler completes it in a transaction of its own."""
    (claim,) = await fetch(sql)
    async with sql.connection.transaction():
        (locked,) = await sql.run("lock_claim", 1, job, claim["lock_token"])
        (row,) = await sql.run("complete_claim", 1, job, claim["lock_token"], locked["xid"], None, 1.0, None, None)
    assert "completed" == row["ending"]


async def force_unlock_at_last(sql: Session, job: int) -> None:
    """Its worker is unlocked by force in its last attempt."""
    await sql.rows("update asyncq._jobs set max_attempts = 1 where id = $1", job)
    await fetch(sql)
    await sql.rows("select from asyncq.force_unlock_workers('{1}')")


async def return_cancelled(sql: Session, job: int) -> None:
    """It was cancelled while the answer of its fetch got lost."""
    await fetch(sql, token=7)
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", job)
    await sql.run("return_lost", 1, [7])


WAYS: dict[str, tuple[Act, Expected]] = {
    **{name: (act, OF_STATE[said]) for name, (act, said) in ENDS.items()},
    "expired": (expire, CANCELLED),
    "pruned": (prune, CANCELLED),
    "cleaned up": (clean_up, CANCELLED),
    "removed": (remove, CANCELLED),
    "removed with others": (remove_matching, CANCELLED),
    "replaced": (replace, CANCELLED),
    "completed by its handler": (complete_claim, COMPLETED),
    "unlocked by force": (force_unlock_at_last, FAILED),
    "returned, and cancelled before": (return_cancelled, CANCELLED),
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_to_end_decides_about_the_waiters_by_their_word(claiming: Session, way: str) -> None:
    """The table of the guide. A waiter with another edge waits for that one too."""
    act, expected = WAYS[way]
    job = await add(claiming)
    waiters = {word: await wait_for(claiming, job, if_failed=word) for word in expected}
    await claiming.rows(
        "update asyncq._jobs set priority = 5 where task_id in (select id from asyncq._tasks where identifier = 'w')"
    )
    await act(claiming, job)
    await look(claiming)

    assert expected == {word: await state(claiming, waiter) for word, waiter in waiters.items()}
    assert (1 if expected is FAILED else 0, 0) == await left(claiming)
    assert [] == await broken_laws(claiming)


async def test_all_jobs_have_to_end(sql: Session) -> None:
    """The last one releases."""
    first, second = await add(sql), await add(sql)
    waiter = await wait_for(sql, first, second)
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", second)
    before = await look(sql), await state(sql, waiter)
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", first)

    assert ([], "pending") == before
    assert ([("released", waiter, None)], "available") == (await look(sql), await state(sql, waiter))


async def test_a_released_job_is_due_at_its_real_time(sql: Session) -> None:
    """That may lie ahead; the year 9999 is gone in any case, and so is the word."""
    job = await add(sql)
    later = await wait_for(sql, job, if_failed="run")
    await sql.rows("select from asyncq.reschedule_jobs(array[$1::bigint], run_at => now() + interval '1 h')", later)
    before = await state(sql, later)
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
    await look(sql)
    row = await sql.row(
        "select run_at = now() + interval '1 h' as is_right, due_at, extras from asyncq._jobs where id = $1", later
    )

    assert ("pending", "scheduled", (True, None, None)) == (before, await state(sql, later), tuple(row))


async def test_jobs_of_a_batch_are_waited_for(claiming: Session) -> None:
    """The batch is split, and the settlement leaves the awaited one to settle_rest."""
    await add_many(claiming, 3)
    claims = await fetch(claiming, form="batched")
    waiter = await wait_for(claiming, claims[1]["id"])
    written = await complete(claiming, claims)
    ending = await settle_rest(claiming, [claims[1]], done=True)

    assert [claims[0]["id"], claims[2]["id"]] == sorted(written)
    assert {claims[1]["id"]: "written", None: "closings"} == ending
    assert [("released", waiter, None)] == await look(claiming)


async def test_a_cancelled_waiter_cancels_its_own_waiters(sql: Session) -> None:
    """In one look, however long the chain is, and however few it reads at once; one that runs in any case starts."""
    chain = [await add(sql)]
    for _ in range(4):
        chain.append(await wait_for(sql, chain[-1]))
    last = await wait_for(sql, chain[-1], if_failed="run")
    await sql.rows("select from asyncq.cancel_jobs(array[$1::bigint])", chain[0])
    await look(sql, most=2)

    assert [None] * 5 + ["available"] == await states(sql, [*chain, last])
    assert (0, 0) == await left(sql)


async def test_a_look_at_one_end_knows_the_other_ends_of_its_waiter(own: Session) -> None:
    """The first closing says that a job has completed, the second one that another job was cancelled."""
    first, second = await add(own), await add(own)
    waiter = await wait_for(own, first, second)
    async with own.connection.transaction():
        undone = own.connection.transaction()
        await undone.start()
        await own.rows("select from asyncq.cancel_jobs(array[$1::bigint])", second)
        await undone.rollback()
        await own.rows("select from asyncq.complete_jobs(array[$1::bigint])", first)
        await own.rows("select from asyncq.cancel_jobs(array[$1::bigint])", second)
    closings = await left(own)

    assert ((0, 2), [("cancelled", waiter, None)]) == (closings, await look(own, most=1))
    assert (0, 0) == await left(own)


async def test_waiters_that_are_held_keep_nobody_behind_them_from_their_release(dsn: str, own: Session) -> None:
    """A look goes on behind their closings, which stay."""
    first, second = await add(own), await add(own)
    held = [await wait_for(own, first, if_failed="run") for _ in range(3)]
    free = await wait_for(own, second)
    await own.rows("select from asyncq.complete_jobs($1::bigint[])", [first])
    await own.rows("select from asyncq.complete_jobs($1::bigint[])", [second])
    async with session(dsn, own.schema) as other, other.connection.transaction():
        await other.rows("select from asyncq._jobs where id = any($1) for update", held)
        during = await look(own, most=2)
    after = await look(own, most=2)

    assert [("held", job, None) for job in held] + [("released", free, None)] == sorted(during)
    assert [("released", job, None) for job in held] == sorted(after)


async def test_a_blocked_waiter_goes_on_after_the_retry_of_the_failed_job(claiming: Session) -> None:
    """A failure for good is no end: the edge stays."""
    job = await add(claiming)
    waiter = await wait_for(claiming, job)
    await settle_rest(claiming, await fetch(claiming), kind="failed", error="e", attempts=99)
    blocked = await look(claiming)
    explained = await claiming.rows("select reason, detail from asyncq.explain($1)", waiter)
    await claiming.rows("select from asyncq.retry_jobs(array[$1::bigint])", job)
    await settle_rest(claiming, await fetch(claiming), done=True)

    assert [("blocked", waiter, job)] == blocked
    assert [
        ("pending", f"waits for job {job}, which is discarded"),
        ("blocked", f"job {job} has failed for good: retry that one, or cancel this one"),
    ] == [tuple(row) for row in explained]
    assert [("released", waiter, None)] == await look(claiming)


async def test_a_failure_that_was_retried_before_the_look_means_nothing(sql: Session) -> None:
    """Its closing is older than the retry, and the job may have completed since."""
    job = await add(sql)
    waiter = await wait_for(sql, job, if_failed="cancel")
    await sql.rows("select from asyncq.permanently_fail_jobs(array[$1::bigint])", job)
    await sql.rows("select from asyncq.retry_jobs(array[$1::bigint])", job)

    assert ([], "pending") == (await look(sql), await state(sql, waiter))

    await sql.rows("select from asyncq.permanently_fail_jobs(array[$1::bigint])", job)
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)

    assert ([("released", waiter, None)], "available") == (await look(sql), await state(sql, waiter))


@pytest.mark.parametrize("act", ["cancel_jobs", "complete_jobs"])
async def test_a_pending_job_that_ends_leaves_no_edge(sql: Session, act: str) -> None:
    """Nobody is left to release."""
    job = await add(sql)
    waiter = await wait_for(sql, job)
    await sql.rows(f"select from asyncq.{act}(array[$1::bigint])", waiter)

    assert ((0, 0), None) == (await left(sql), await state(sql, waiter))
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
    assert [] == await look(sql)


async def test_a_pending_job_is_not_fetched_and_a_discarded_one_stays_pending_after_its_retry(sql: Session) -> None:
    """No function of administration lets it start before its time."""
    job = await add(sql, task="other")
    waiter = await wait_for(sql, job)
    await sql.rows("select from asyncq.permanently_fail_jobs(array[$1::bigint])", waiter)
    discarded = await state(sql, waiter)
    await sql.rows("select from asyncq.retry_jobs(array[$1::bigint])", waiter)
    await sql.rows("select from asyncq.reschedule_jobs(array[$1::bigint], run_at => now())", waiter)

    assert ("discarded", "pending", []) == (discarded, await state(sql, waiter), await fetched(sql, tasks=["w"]))


async def test_a_released_job_of_a_queue_wakes_its_partition(sql: Session) -> None:
    """Without a wakeup no fetch would look for it; before, it needs none."""
    job = await add(sql)
    waiter = await sql.value(
        "select id from asyncq.add_job('w', queue_name => 'q', options => $1::text::jsonb)", f'{{"after": [{job}]}}'
    )
    before = await sql.value("select count(*) from asyncq._wakeups")
    await sql.rows("select from asyncq.complete_jobs(array[$1::bigint])", job)
    await look(sql)

    assert (0, [waiter]) == (before, await fetched(sql, tasks=["w"]))

"""`cancel_jobs`: waiting jobs end, running jobs are marked and their workers notified, others do not change."""

import pytest

from tests.support.jobs import add, claimed, complete, fetch, fetched, locked_queues, settle_rest
from tests.support.keyed import add_one, hold, stored
from tests.support.marked import ended, keep
from tests.support.session import Session

CANCEL = "select * from asyncq.cancel_jobs($1::bigint[])"
STATE = "select asyncq._state(job) from asyncq._jobs as job where id = $1"


@pytest.mark.parametrize("state", ["scheduled", "available", "retryable"])
async def test_a_waiting_job_is_deleted_and_returned_as_it_was(sql: Session, state: str) -> None:
    """A remaining row would only be in the way."""
    job = (await hold(sql, state))["id"]
    before = dict(await sql.row("select * from asyncq.jobs"))

    assert [before] == [dict(row) for row in await sql.rows(CANCEL, [job])]
    assert ({}, []) == (await stored(sql), await ended(sql))


async def test_a_job_that_waits_is_kept_as_cancelled_if_that_was_asked_for(sql: Session) -> None:
    """A unique policy may count cancelled jobs."""
    kept, other = await add(sql), await add(sql)
    await keep(sql, kept, ["cancelled"])
    await keep(sql, other, ["completed", "discarded"])
    await sql.rows(CANCEL, [kept, other])

    assert ([(kept, "cancelled")], {}) == (await ended(sql), await stored(sql))


async def test_a_running_job_counts_as_cancelled_for_all_but_its_worker(sql: Session) -> None:
    """Its row and its queue stay as long as the handler runs; its key is free."""
    job = (await add_one(sql, queue="q")).id
    claims = await fetch(sql, worker=1, token=5)
    before = dict(await sql.row("select * from asyncq.jobs"))
    cancelled = [dict(row) for row in await sql.rows(CANCEL, [job])]

    assert ([before], "1") == (cancelled, cancelled[0]["locked_by"])
    assert ("cancelled", [job], ["q"]) == (await sql.value(STATE, job), await claimed(sql), await locked_queues(sql))
    assert "added" == (await add_one(sql)).outcome
    assert {job: "cancelled"} == await settle_rest(sql, claims, done=True)


async def test_a_discarded_job_and_an_unknown_one_are_left_alone(sql: Session) -> None:
    """Both have ended, or never existed."""
    before = await hold(sql, "discarded")

    assert [] == await sql.rows(CANCEL, [before["id"], 0, -1, None])
    assert {before["id"]: before} == await stored(sql)


async def test_cancelled_jobs_are_returned_once_in_the_order_of_their_ids(sql: Session) -> None:
    """The order and repetition of the arguments do not matter."""
    jobs = [await add(sql) for _ in range(5)]
    await fetch(sql, 2)

    assert jobs == [row["id"] for row in await sql.rows(CANCEL, [*reversed(jobs), *jobs])]
    assert jobs[:2] == await claimed(sql)


async def test_a_second_cancel_notifies_the_worker_once_more(own: Session) -> None:
    """The first notification may have been lost. The mark keeps its time."""
    heard: list[object] = []
    job = await add(own)
    await fetch(own, worker=3, token=9)
    await own.connection.add_listener(f"{own.schema}:cancel", lambda *said: heard.append(said[3]))
    await own.rows(CANCEL, [job])
    at = await own.value("select cancelled_at from asyncq._jobs")

    assert [job] == [row["id"] for row in await own.rows(CANCEL, [job])]
    assert [f"3 {job} 9"] * 2 == heard
    assert at == await own.value("select cancelled_at from asyncq._jobs")
    await own.execute("delete from asyncq._jobs")


async def test_a_rolled_back_cancel_notifies_nobody(own: Session) -> None:
    """Its handler must not be cancelled."""
    heard: list[object] = []
    job = await add(own)
    await fetch(own)
    await own.connection.add_listener(f"{own.schema}:cancel", lambda *said: heard.append(said[3]))
    transaction = own.connection.transaction()
    await transaction.start()
    await own.rows(CANCEL, [job])
    await transaction.rollback()
    await own.rows("select")

    assert ([], "active") == (heard, await own.value(STATE, job))
    await own.execute("delete from asyncq._jobs")


async def test_no_ids_cancel_nothing(sql: Session) -> None:
    """The list may be empty or null."""
    job = await add(sql)

    assert ([], []) == (await sql.rows(CANCEL, []), await sql.rows(CANCEL, None))
    assert [job] == await fetched(sql)


async def test_a_cancelled_job_that_completes_nevertheless_is_not_completed(sql: Session) -> None:
    """The plain statement must not take it for one that ended well."""
    job = await add(sql)
    await keep(sql, job)
    claims = await fetch(sql)
    await sql.rows(CANCEL, [job])

    assert [] == await complete(sql, claims)
    assert ({job: "cancelled"}, [(job, "cancelled")]) == (await settle_rest(sql, claims, done=True), await ended(sql))

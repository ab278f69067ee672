"""`watch`: how jobs have ended, and the mark by which the end of the others is kept and notified."""

import asyncpg
import pytest

from tests.support.ear import Ear
from tests.support.jobs import add, add_many, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.watching import Told, ends, watch

FORMS = pytest.mark.parametrize("form", ["rows", "batched"])
WAITING = {"state": "waiting"}


@FORMS
async def test_a_watched_running_job_is_left_to_settle_rest_which_keeps_and_tells_its_result(
    claiming: Session, told: Told, form: str
) -> None:
    """The other jobs of its batch end as before, and nothing of them is kept."""
    await add_many(claiming, 3)
    claims = await fetch(claiming, form=form)
    job, others = claims[1]["id"], [claims[0]["id"], claims[2]["id"]]
    waiting = await watch(claiming, job, channel=told.channel)
    written = await complete(claiming, claims)
    ending = await settle_rest(claiming, [claims[1]], done=True, result='{"a": 1}', duration_s=1.0)
    end = {"state": "completed", "task": "t", "attempts": 1, "has_result": True, "result": {"a": 1}, "error": None}

    assert ({job: WAITING}, others, {job: "written"}) == (waiting, sorted(written), ending)
    assert [{"id": job, **end}] == await told.received()
    assert {job: end} == await watch(claiming, *others, job)


async def test_a_watched_job_is_kept_for_a_minute(claiming: Session, told: Told) -> None:
    """For so long a client has time to ask again after a lost notification; then a prune deletes it."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    await settle_rest(claiming, await fetch(claiming), done=True, result="1")
    kept_s = "select extract(epoch from keep_until - ended_at) from asyncq._ended_jobs"

    assert 59 < await claiming.value(kept_s) < 62
    await claiming.execute("update asyncq._ended_jobs set keep_until = now()")
    await claiming.rows("select from asyncq._prune(null, null, 10)")
    assert {} == await watch(claiming, job)


async def test_a_failed_job_that_will_be_retried_keeps_its_watchers_waiting(claiming: Session, told: Told) -> None:
    """It has not ended. Then its retry completes it."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    await settle_rest(claiming, await fetch(claiming), kind="failed", error="e", attempts=1, delay_s=0.0)
    before = (await told.received())[:], await watch(claiming, job, channel=told.channel)
    await settle_rest(claiming, await fetch(claiming), done=True, result="2")

    assert ([], {job: WAITING}) == before
    assert [2] == [document["result"] for document in await told.received()]


async def test_a_job_that_runs_again_keeps_its_watchers_waiting(claiming: Session, told: Told) -> None:
    """A second request came while it ran: the result of the last run counts."""
    job = await add(claiming)
    await watch(claiming, job, channel=told.channel)
    claims = await fetch(claiming)
    await claiming.rows("update asyncq._jobs set rerun = '{}'")
    await settle_rest(claiming, claims, done=True, result="1")
    await settle_rest(claiming, await fetch(claiming), done=True, result="2")

    assert [2] == [document["result"] for document in await told.received()]


@pytest.mark.parametrize("mode", ["replace", "preserve_run_at"])
async def test_an_add_that_replaces_a_waiting_job_keeps_its_watchers(claiming: Session, told: Told, mode: str) -> None:
    """Its options are those of the new add; who waits for the job is no option."""
    add_again = "select (asyncq.add_job('t', job_key => 'k', job_key_mode => $1, options => $2)).id"
    job = await claiming.value(add_again, mode, None)
    await watch(claiming, job, channel=told.channel)
    await claiming.value(add_again, mode, '{"timeout_s": 5}')
    extras = await claiming.value("select extras ->> 'timeout_s' from asyncq._jobs")
    await settle_rest(claiming, await fetch(claiming), done=True, result="1")

    assert ("5", [(job, "completed")]) == (extras, ends(await told.received()))


async def test_two_clients_are_told_each_on_its_own_channel(claiming: Session, told: Told) -> None:
    """A client that asks twice gets one notification."""
    job = await add(claiming)
    for channel in (f"asyncq:{'0' * 32}", told.channel, None, told.channel):
        await watch(claiming, job, channel=channel)
    watchers = await claiming.value("select extras ->> 'watchers' from asyncq._jobs")
    await settle_rest(claiming, await fetch(claiming), done=True)

    assert f'["asyncq:{"0" * 32}", "{told.channel}"]' == watchers
    assert [(job, "completed")] == ends(await told.received())


async def test_of_a_job_that_nobody_watches_neither_result_nor_reason_is_kept(sql: Session) -> None:
    """A unique policy keeps it for its key, for a long time perhaps."""
    await sql.value("select (asyncq.add_job('t', options => $1)).id", '{"idempotency_key": "k"}')
    await settle_rest(sql, await fetch(sql), done=True, result="1")
    row = await sql.row("select state, result, error from asyncq._ended_jobs")

    assert ("completed", None, None) == tuple(row)


async def test_nothing_is_known_of_a_job_that_has_ended_without_a_watcher(sql: Session) -> None:
    """It was deleted. The client raises that."""
    job = await add(sql)
    await complete(sql, await fetch(sql))

    assert {} == await watch(sql, job)


async def test_a_watch_of_a_waiting_job_wakes_a_worker(own: Session, ear: Ear) -> None:
    """A fetch has skipped the job while it was locked here, and another one may come much later. Once is enough."""
    job = await add(own)
    await ear.forget()
    await watch(own, job)
    heard = (await ear.received())[:]
    await watch(own, job)
    await settle_rest(own, await fetch(own), done=True)

    assert 1 == len(heard) == len(await ear.received())


async def test_a_channel_that_is_not_one_of_a_client_is_refused(sql: Session) -> None:
    """A name that is too long would fail each settlement of the job."""
    refused = await sql.refusal("select asyncq._watch('{}', 'asyncq:jobs')")

    assert isinstance(refused, asyncpg.InvalidParameterValueError)


async def test_a_job_that_is_added_with_a_watcher_is_marked_from_the_start(claiming: Session, told: Told) -> None:
    """`Client.run` adds it so: it needs no further statement, and no fetch puts it into a batch."""
    record = f'{{"extras": {{"watchers": ["{told.channel}"]}}}}'
    (row,) = await claiming.run("add_keyless_job", "t", "{}", None, None, record)
    job = row["id"] or await claiming.value(
        "select id from asyncq._add_jobs(array[asyncq._new_job('t', '{}', null, null, $1::text::jsonb)])", record
    )
    (claim,) = await fetch(claiming, form="batched")
    in_row = await claiming.value("select count(*) from asyncq._jobs")
    written = await complete(claiming, [claim])
    await settle_rest(claiming, [claim], done=True, result="null")
    (heard,) = await told.received()

    assert (job, 1, []) == (claim["id"], in_row, written)
    assert ("completed", True, None) == (heard["state"], heard["has_result"], heard["result"])

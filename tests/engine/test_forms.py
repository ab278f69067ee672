"""`Forms`: when a fetch asks for jobs of queues too."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from asyncq import Client, JobCompleted, JobStarted, task
from asyncq.domain.job import Claim
from asyncq.engine.fetch import cursor, forms
from asyncq.engine.fetch.forms import MOMENT_S, Forms
from tests.engine.conftest import MakeWorker
from tests.engine.seen import Seen


def claim(queue: str | None = None) -> Claim:
    """A claim of a job of a queue, or of none."""
    return Claim(1, 1, queue, 1, 0, 25, 0, 0, 0, 0, 0, 0, None, None, "{}", None, None)


@task
async def nothing() -> None:
    """Do nothing."""


PLAIN = [claim(), claim()]
SERIAL = [claim(), claim("q")]


def test_after_a_fetch_without_jobs_of_queues_the_next_ones_do_not_ask_for_them_for_a_moment() -> None:
    """Their queues are busy, or there are none."""
    made = Forms()
    seen = [made.choose(0)]
    for now in (0.0, MOMENT_S / 2, MOMENT_S):
        assert made.took(PLAIN, 2, 0) is (seen[-1] != "plain")
        seen.append(made.choose(now))

    assert ["plain first", "plain", "plain", "plain first"] == seen


@pytest.mark.parametrize(("took_s", "moment_s"), [(0.0, 0.025), (0.001, 0.025), (0.003, 0.06), (0.1, 0.1)])
def test_after_an_expensive_fetch_the_moment_is_longer(took_s: float, moment_s: float) -> None:
    """A twentieth of the time is its price, within bounds."""
    made = Forms()
    made.choose(0)
    made.took(PLAIN, 2, took_s)

    assert ("plain", "plain first") == (made.choose(moment_s * 0.99), made.choose(moment_s))


def test_whatever_may_have_freed_a_queue_ends_that_moment() -> None:
    """A job of that queue may be the most urgent one."""
    made = Forms()
    made.choose(0)
    made.took(PLAIN, 2, 0)

    assert "plain first" == made.choose(0, woken=True)


def test_fewer_than_wanted_are_not_all_as_long_as_nobody_asked_for_those_of_queues() -> None:
    """The next fetch does."""
    made = Forms()
    made.choose(0)
    made.took(PLAIN, 2, 0)
    made.choose(0)

    assert not made.took(PLAIN, 3, 0)
    assert "plain first" == made.choose(0)
    assert made.took(PLAIN, 3, 0)


def test_while_jobs_of_queues_come_they_are_asked_for_in_one_step() -> None:
    """The short form would bring nothing."""
    made = Forms()
    made.choose(0)
    made.took(SERIAL, 2, 0)
    seen = [made.choose(0)]
    made.took(PLAIN, 2, 0)
    seen.append(made.choose(MOMENT_S))

    assert ["all", "plain first"] == seen


def test_an_expensive_look_is_not_asked_in_two_steps() -> None:
    """It will hardly bring anything."""
    made = Forms()
    made.choose(0)
    made.took(PLAIN, 2, 0)

    assert "all" == made.choose(0, is_dear=True)


async def test_a_job_of_a_queue_that_nobody_told_of_is_found_when_the_others_are_done(
    client: Client,
    db: asyncpg.Connection,
    schema: str,
    make_worker: MakeWorker,
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker must not rest because jobs without a queue have come to their end."""
    monkeypatch.setattr(forms, "MOMENT_S", 60.0)
    monkeypatch.setattr(cursor, "CHEAP_S", 60.0)
    leave = asyncio.Event()

    @task
    async def hold() -> None:
        await leave.wait()

    @task
    async def let_it_be_due() -> None:
        await db.execute(f"update {schema}._jobs set run_at = now() - interval '1 min' where id = $1", silent.id)

    silent = await client.add_job(nothing, queue="free", run_at=datetime.now(UTC) + timedelta(hours=1))
    await client.add_jobs([hold.job().with_options(queue="busy")] * 2)
    async with make_worker(hold, nothing, let_it_be_due, concurrency=2).start():
        await seen.wait_for(JobStarted)
        await client.add_jobs([nothing.job()] * 30 + [let_it_be_due.job()] + [nothing.job()] * 30)
        await seen.wait_for(JobCompleted, 62)
        leave.set()
        await seen.wait_for(JobCompleted, 64)

    assert silent.id in seen.ids(JobCompleted)[:62]

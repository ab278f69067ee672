"""`backlog` and `oldest_due`: the numbers by which workers are scaled, and by which somebody is woken."""

import pytest

from tests.support.jobs import add, add_many, fetch
from tests.support.keyed import STATES, hold
from tests.support.session import Session


async def test_due_and_running_jobs_are_counted(sql: Session) -> None:
    """Those that wait for their time or have failed are not."""
    for state in STATES:
        await hold(sql, state, key=state)

    assert 2 == await sql.value("select asyncq.backlog()")
    assert [2, 0, 0] == [
        await sql.value("select asyncq.backlog($1)", tasks) for tasks in (["old", "none"], ["none"], [])
    ]


async def test_an_empty_table_has_no_backlog(sql: Session) -> None:
    """It is a number, never null."""
    assert (0, None) == (await sql.value("select asyncq.backlog()"), await sql.value("select asyncq.oldest_due()"))


@pytest.mark.parametrize("most", [1, 5, 11, 12, 100])
async def test_the_count_ends_at_a_maximum(sql: Session, most: int) -> None:
    """Jobs of all priorities and of queues count."""
    for priority in (-32768, -1, 0, 7, 32767):
        await add_many(sql, 2, priority=str(priority))
    await add(sql, queue="q")
    await add(sql, run_at="now() + interval '1 h'")

    assert min(most, 11) == await sql.value("select asyncq.backlog(null, $1)", most)
    assert min(most, 11) == await sql.value("select asyncq.backlog('{t}', $1)", most)


async def test_jobs_of_batches_run(claiming: Session) -> None:
    """They count, or their worker would be taken away."""
    await add_many(claiming, 5)
    await fetch(claiming, 3, worker=7, form="batched")

    assert (5, 5) == (
        await claiming.value("select asyncq.backlog()"),
        await claiming.value("select asyncq.backlog('{t}')"),
    )


async def test_it_is_not_0_while_a_job_of_a_queue_could_start(sql: Session) -> None:
    """However many others of queues wait for their time: they come first in the index."""
    await add_many(sql, 21_000, queue="'q' || i % 7", run_at="now() + interval '1 h'")
    await add(sql, queue="due")
    first = await sql.value("select queue from asyncq._jobs where partition is not null order by partition limit 1")
    assert first != "due"

    assert 1 == await sql.value("select asyncq.backlog()")


@pytest.mark.parametrize("queue", [None, "q"])
async def test_the_oldest_due_job_decides(sql: Session, queue: str | None) -> None:
    """Of whatever priority."""
    await add(sql, priority=0, run_at="now() - interval '10 s'")
    await add(sql, priority=9, run_at="now() - interval '50 s'", queue=queue)
    await add(sql, priority=3, run_at="now() + interval '1 h'", queue=queue)
    await add(sql, priority=32767)

    assert 50.0 == await sql.value("select asyncq.oldest_due()")


async def test_a_job_behind_a_running_one_of_its_queue_is_due(claiming: Session) -> None:
    """Its queue has no wakeup until that one ends."""
    await add(claiming, queue="q")
    await fetch(claiming, worker=7)
    await add(claiming, queue="q", run_at="now() - interval '50 s'")
    await claiming.execute("delete from asyncq._wakeups")
    oldest = await claiming.value("select asyncq.oldest_due()")

    assert 50.0 <= oldest < 60.0

"""explain and the fetch agree on any jobs and workers: exactly the ready jobs are fetched by a live worker."""

import random

import pytest

from tests.sql.admin.test_explain import reasons, worker
from tests.support.jobs import add, fetch, fetched
from tests.support.session import Session

TASKS = ("a", "b", "c")
FLAGS = ("f", "g")
QUEUES = (None, None, "q", "r", "s")
TIMES = ("now()", "now() - interval '1 min'", "now() + interval '1 min'")


def some(chance: random.Random, names: tuple[str, ...], most: int) -> list[str]:
    """A few of the names."""
    return chance.sample(names, chance.randrange(most + 1))


async def populate(sql: Session, chance: random.Random) -> dict[int, tuple[list[str], list[str]]]:
    """Jobs in any state, workers of any kind. Returns the live workers: id -> tasks, forbidden flags."""
    jobs = [
        await add(
            sql,
            chance.choice(TASKS),
            queue=chance.choice(QUEUES),
            run_at=chance.choice(TIMES),
            priority=chance.choice((0, 0, 1)),
            flags=some(chance, FLAGS, 2) or None,
            max_attempts=2,
        )
        for _ in range(12)
    ]
    for job in chance.sample(jobs, 5):
        await sql.rows("update asyncq._jobs set attempts = $2 where id = $1", job, chance.choice((1, 2)))
    await fetch(sql, chance.randrange(4), worker=99)
    live = {}
    for _ in range(chance.choice((0, 1, 1, 2, 2))):
        tasks, forbidden = some(chance, TASKS, 3), some(chance, FLAGS, 1)
        live[await worker(sql, *tasks, forbidden=forbidden or None)] = (tasks, forbidden)
    dead = await worker(sql, *TASKS)
    await sql.rows("update asyncq._workers set last_seen = now() - interval '1 h' where id = $1", dead)
    return live


@pytest.mark.parametrize("seed", range(60))
async def test_a_job_is_ready_exactly_if_a_fetch_takes_it(sql: Session, seed: int) -> None:
    """Sixty random states; each fetch is rolled back, so that all workers see the same jobs."""
    live = await populate(sql, random.Random(seed))
    jobs = await sql.values("select id from asyncq._jobs order by id")
    said = {job: await reasons(sql, job) for job in jobs}
    taken: set[int] = set()
    for number, (tasks, forbidden) in live.items():
        transaction = sql.connection.transaction()
        await transaction.start()
        taken |= {*await fetched(sql, 100, worker=number, tasks=tasks, forbidden=forbidden or None)}
        await transaction.rollback()

    assert taken == {job for job in jobs if said[job] == ["ready"]}
    assert [] == [job for job in jobs if not said[job]]

"""`_takes` and `explain`: which jobs a worker takes by the queues and limits that it has chosen, as its fetches do."""

import random
from collections.abc import Sequence

import pytest

from asyncq import Share
from asyncq.domain.share import choice_of, portions_of
from tests.sql.admin.test_explain import EXPLAIN, reasons, worker
from tests.sql.control.test_declare_limits import declare
from tests.support.jobs import add, fetched
from tests.support.session import Session

NAMES = ("q", "r", "a", "b")
LIMITS = {"a": "a", "b": "b", "c": None}


async def choose(
    sql: Session, number: int, queues: Sequence[str | Share] | None = None, exclude: Sequence[str] = ()
) -> None:
    """Store the choice of a worker."""
    choice = choice_of(queues, exclude, concurrency=100)
    await sql.rows(
        "update asyncq._workers set queues = $2, exclude = $3 where id = $1", number, choice.names, list(choice.exclude)
    )


async def store(sql: Session) -> None:
    """Tasks of two limits with their names, and one without a limit; their jobs with and without queues."""
    await sql.execute("select asyncq._store_tasks('{a,b,c}')")
    await declare(sql, a={"at_once": 2, "by": ["k"]}, b={"at_once": 2, "by": ["k"]})


@pytest.mark.parametrize("seed", range(40))
async def test_a_job_is_ready_exactly_if_a_worker_with_a_choice_takes_it(sql: Session, seed: int) -> None:
    """Forty random states, of shares with bounds too; each fetch is rolled back."""
    chance = random.Random(seed)
    await store(sql)
    jobs = [
        await add(sql, chance.choice("abc"), queue=chance.choice((None, "q", "r")), payload='{"k": "x"}')
        for _ in range(10)
    ]
    taken: set[int] = set()
    for _ in range(2):
        names = chance.sample(NAMES, 4)
        named, excluded = names[: chance.randrange(3)], names[2 : chance.randrange(2, 5)]
        queues = chance.choice((None, named, [Share(name, at_once=50) for name in named]))
        me = await worker(sql, *LIMITS)
        await choose(sql, me, queues, excluded)
        choice = choice_of(queues, excluded, concurrency=100)
        ids = {
            await sql.value("select id from asyncq._tasks where identifier = $1", task): limit
            for task, limit in LIMITS.items()
            if limit not in excluded
        }
        tasks = [task for task, limit in LIMITS.items() if limit not in excluded]
        transaction = sql.connection.transaction()
        await transaction.start()
        for portion in portions_of(choice, ids):
            taken |= {*await fetched(sql, 100, worker=me, tasks=tasks, choice=portion.which)}
        await transaction.rollback()
    said = {job: await reasons(sql, job) for job in jobs}

    assert taken == {job for job in jobs if said[job] == ["ready"]}
    assert [] == [job for job in jobs if not said[job]]


@pytest.mark.parametrize(
    ("queues", "exclude", "expected"),
    [
        (["mail", "bulk"], [], "no live worker takes jobs of queue q and limit a: worker {0} has queues mail, bulk"),
        ([], [], "no live worker takes jobs of queue q and limit a: worker {0} has queues []"),
        (None, ["a"], "no live worker takes jobs of queue q and limit a: worker {0} excludes a"),
        (["a"], ["q"], "no live worker takes jobs of queue q and limit a: worker {0} has queues a, excludes q"),
    ],
    ids=["others", "none", "excluded", "both"],
)
async def test_it_says_what_each_worker_takes(
    sql: Session, queues: list[str] | None, exclude: list[str], expected: str
) -> None:
    """A worker that does not know the task is not named. Once one takes the queue, the job is ready."""
    await store(sql)
    job = await add(sql, "a", queue="q", payload='{"k": "x"}')
    me, _ = await worker(sql, "a"), await worker(sql, "b")
    await choose(sql, me, queues, exclude)
    row = await sql.row(EXPLAIN, job)
    await choose(sql, me, ["q"])

    assert ("not_chosen", expected.format(me)) == (row["reason"], row["detail"])
    assert ["ready"] == await reasons(sql, job)


async def test_jobs_that_no_worker_takes_come_before_no_other_job(sql: Session) -> None:
    """A worker that excludes the limit of the first job of a queue takes the next one."""
    await store(sql)
    first, second = await add(sql, "a", queue="q", payload="{}"), await add(sql, "c", queue="q")
    me = await worker(sql, *LIMITS)
    await choose(sql, me, exclude=["a"])

    assert (["not_chosen"], ["ready"]) == (await reasons(sql, first), await reasons(sql, second))

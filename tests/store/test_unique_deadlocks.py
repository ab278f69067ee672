"""Unique adds never deadlock, with each other nor with workers and administration: one order of locks for all."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from asyncq.testing import temporary_schema
from tests.store.test_key_deadlocks import DEADLOCKS, at_once
from tests.support.example_program import fresh_database
from tests.support.jobs import change, complete, fetch, settle_rest
from tests.support.session import Session
from tests.support.unique import STRATEGIES, ask_all, spec

THOROUGH = True
SUBJECTS = [f"s{i}" for i in range(30)]

# What time does; it locks nothing that it has to wait for, as no statement of time's own would.
OUTDATE = """
update asyncq._requests set keep_until = '-infinity'
where key = any(array(select key from asyncq._requests where key like '%1' for update skip locked))
"""

Make = Callable[[random.Random, str, int], dict[str, Any]]


@pytest.fixture
async def dsn(dsn: str) -> AsyncIterator[str]:
    """A database of its own: the server counts deadlocks by database, and other tests provoke some."""
    async with fresh_database(dsn) as own:
        yield own


@pytest.fixture
async def schema(dsn: str) -> AsyncIterator[str]:
    """A schema in that database."""
    async with temporary_schema(dsn) as name:
        yield name


@pytest.fixture
async def counted(sql: Session) -> AsyncIterator[Session]:
    """A session of which the server counted no deadlock at the end; a deadlock fails the call that it hits, too."""
    before = await sql.value(DEADLOCKS)
    yield sql
    await sql.rows("select pg_catalog.pg_stat_clear_snapshot()")

    assert before == await sql.value(DEADLOCKS)


def adder(seed: int, rounds: int, make: Make, *, shares: bool = False) -> Callable[[Session], Awaitable[None]]:
    """Work that adds a job of each subject in one call, in another order in each round."""

    async def add(mine: Session) -> None:
        rng = random.Random(seed)
        for turn in range(rounds):
            subjects = rng.choices(SUBJECTS, k=len(SUBJECTS)) if shares else rng.sample(SUBJECTS, len(SUBJECTS))
            done = await ask_all(mine, [make(rng, subject, turn) for subject in subjects])

            assert len(subjects) == len(done)

    return add


def by_subject(rng: random.Random, subject: str, _turn: int) -> dict[str, Any]:
    """A job of a subject, with any strategy."""
    return spec({"keys": ["args"], "on_conflict": rng.choice(STRATEGIES)}, payload=subject)


def anything(rng: random.Random, subject: str, turn: int) -> dict[str, Any]:
    """A job of a random kind, with names that are new to most who use them."""
    task = f"t{turn * 5 + rng.randrange(10)}"
    kinds: list[dict[str, Any]] = [
        by_subject(rng, subject, turn),
        spec({"keys": ["args"], "states": ["discarded", "active"], "on_conflict": "replace"}, payload=subject),
        spec(task=task, singleton=True, subject=subject, rerun=True),
        spec(task=task, singleton=True, subject=subject, force=True, job_key=subject),
        spec(task=task, job_key=subject, payload=[turn]),
        spec(payload=subject, idempotency_key=f"{subject} {turn % 5}"),
        spec({"keys": ["args"]}, payload=subject, idempotency_key=f"{subject} {turn % 7}"),
        spec(task=task, queue=subject),
    ]
    return rng.choice(kinds)


def worker(number: int, rounds: int) -> Callable[[Session], Awaitable[None]]:
    """Work that claims jobs and ends them in each of the ways."""

    async def drain(mine: Session) -> None:
        rng = random.Random(number)
        for turn in range(rounds):
            claims = await fetch(mine, rng.randint(1, 20), worker=number, token=turn)
            half = len(claims) // 2
            await complete(mine, claims[:half], worker=number)
            await change(mine, claims[half:], worker=number, attempts=rng.choice((0, 1, 32767)))
            await settle_rest(mine, claims, worker=number, done=True)
            if turn % 10 == 0:
                await mine.run("rescue_jobs", THOROUGH)

    return drain


async def test_batches_of_the_same_keys_in_opposite_orders(dsn: str, counted: Session) -> None:
    """All of them replace, reject and ignore each other's jobs."""
    await at_once(dsn, counted.schema, *(adder(seed, 30, by_subject) for seed in range(4)))

    assert len(SUBJECTS) == await counted.value("select count(*) from asyncq._jobs")


@pytest.mark.parametrize("shares", [False, True])
async def test_batches_of_every_kind_with_new_names(dsn: str, counted: Session, shares: bool) -> None:
    """Gates of all kinds in one order; names at last."""
    await at_once(dsn, counted.schema, *(adder(seed, 15, anything, shares=shares) for seed in range(4)))

    assert [] == await counted.rows("select * from asyncq.violations()")


@pytest.mark.parametrize("rounds", [12, pytest.param(150, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_batches_beside_workers_pruning_and_administration(dsn: str, counted: Session, rounds: int) -> None:
    """Workers skip what is held; those who change jobs by hand lock them in the order of their ids."""

    async def administer(mine: Session) -> None:
        rng = random.Random()
        for turn in range(4 * rounds):
            await mine.rows("select asyncq.remove_job($1)", rng.choice(SUBJECTS))
            ids = "array(select id from asyncq._jobs order by random() limit 5)"
            await mine.rows(f"select from asyncq.{rng.choice(('cancel_jobs', 'retry_jobs'))}({ids})")
            if turn % 4 == 0:
                await mine.execute(OUTDATE)
                await mine.run("prune", 0.0, 100)

    await at_once(
        dsn,
        counted.schema,
        *(adder(seed, rounds, anything, shares=bool(seed)) for seed in range(2)),
        *(worker(number, 2 * rounds) for number in (1, 2)),
        administer,
    )
    await counted.run("rescue_jobs", THOROUGH)

    assert [] == await counted.rows("select * from asyncq.violations()")

"""One call never deadlocks with another, nor with workers, pruning and administration: all lock in one order.

First key locks, then jobs by id, then names; for job keys, and for unique policies, singletons and idempotency keys.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from asyncq.testing import temporary_schema
from tests.support.example_program import fresh_database
from tests.support.jobs import change, complete, fetch, settle_rest
from tests.support.keyed import MODES, Spec, add_all
from tests.support.session import Session, session
from tests.support.steps import store
from tests.support.unique import STRATEGIES, ask_all, spec

THOROUGH = True
SUBJECTS = [f"s{i}" for i in range(30)]
DEADLOCKS = "select deadlocks from pg_catalog.pg_stat_database where datname = current_database()"

# Simulated passage of time: it skips locked rows, so that it causes no deadlock itself.
OUTDATE = """
update asyncq._requests set keep_until = '-infinity'
where key = any(array(select key from asyncq._requests where key like '%1' for update skip locked))
"""

Work = Callable[[Session], Awaitable[object]]
Make = Callable[[random.Random, str, int], Any]


@dataclass(frozen=True)
class Kind:
    """Jobs that meet each other by one kind of key.

    Attributes:
        add: Adds several jobs in one call.
        alike: Makes a job of a subject, which meets all jobs of that subject.
        anything: Makes a job of any form, with names that are new to most callers.
        rounds: How many batches one caller adds, beside other callers and beside workers; and under `make soak`.
        others: Makes the work beside adds and workers, for so many rounds.
        finds: A query that is true after batches of `alike` by four callers.
    """

    add: Callable[[Session, list[Any]], Awaitable[Sequence[object]]]
    alike: Make
    anything: Make
    rounds: tuple[int, int, int]
    others: Callable[[int], list[Work]]
    finds: str


def replacing(_rng: random.Random, subject: str, _turn: int) -> Spec:
    """A job whose key replaces what waits; its payload is appended."""
    return Spec(key=subject, payload="[1]")


def any_key(rng: random.Random, subject: str, turn: int) -> Spec:
    """A spec of a random mode, with or without a key."""
    name = f"n{turn * 5 + rng.randrange(10)}"
    key = rng.choice((subject, subject, None))
    return Spec(name, queue=rng.choice((None, name)), key=key, mode=rng.choice(MODES), payload="[1]")


def removals(rounds: int) -> list[Work]:
    """Removals; and removals with an add of the same key in one transaction: the key lock comes first in both."""

    async def remove(mine: Session) -> None:
        rng = random.Random()
        for _ in range(4 * rounds):
            await mine.rows("select asyncq.remove_job($1)", rng.choice(SUBJECTS))

    async def remove_and_add(mine: Session) -> None:
        rng = random.Random()
        for _ in range(2 * rounds):
            key = rng.choice(SUBJECTS)
            async with mine.connection.transaction():
                await mine.rows("select asyncq.remove_job($1)", key)
                await add_all(mine, [Spec(key=key)])

    return [remove, remove_and_add]


def by_subject(rng: random.Random, subject: str, _turn: int) -> dict[str, Any]:
    """A job of a subject, with any strategy."""
    return spec({"keys": ["args"], "on_conflict": rng.choice(STRATEGIES)}, payload=subject)


def any_policy(rng: random.Random, subject: str, turn: int) -> dict[str, Any]:
    """A unique job, a singleton, a job with a job key or an idempotency key, or one with a queue."""
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


def administration(rounds: int) -> list[Work]:
    """Removals, cancellations and retries by hand, and pruning."""

    async def administer(mine: Session) -> None:
        rng = random.Random()
        for turn in range(4 * rounds):
            await mine.rows("select asyncq.remove_job($1)", rng.choice(SUBJECTS))
            ids = "array(select id from asyncq._jobs order by random() limit 5)"
            await mine.rows(f"select from asyncq.{rng.choice(('cancel_jobs', 'retry_jobs'))}({ids})")
            if turn % 4 == 0:
                await mine.execute(OUTDATE)
                await mine.run("prune", 0.0, 0.0, 100)

    return [administer]


ALL_APPENDED = "select min(json_array_length(payload)) = 160 and count(*) = 30 from asyncq._jobs"
ONE_EACH = "select count(*) = 30 from asyncq._jobs"
KINDS = {
    "job keys": Kind(add_all, replacing, any_key, (40, 25, 400), removals, ALL_APPENDED),
    "unique jobs": Kind(ask_all, by_subject, any_policy, (30, 12, 150), administration, ONE_EACH),
}


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
async def sql(dsn: str, schema: str) -> AsyncIterator[Session]:
    """A session in that database."""
    async with session(dsn, schema) as opened:
        yield opened


@pytest.fixture
async def counted(sql: Session) -> AsyncIterator[Session]:
    """A session of a database in which no deadlock may be counted. A deadlock also fails the call that it hits."""
    before = await sql.value(DEADLOCKS)
    yield sql
    await sql.rows("select pg_catalog.pg_stat_clear_snapshot()")

    assert before == await sql.value(DEADLOCKS)


async def at_once(dsn: str, schema: str, *works: Work) -> None:
    """Do several works at once, each in a session of its own."""

    async def do(work: Work) -> None:
        # A deadlock is found as soon as it is there.
        async with session(dsn, schema, deadlock_timeout="20ms") as mine:
            await work(mine)

    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(do, work)


def adder(kind: Kind, make: Make, seed: int, rounds: int, *, shares: bool = False) -> Work:
    """Work that adds a job of each subject in one call, in another order in each round.

    With `shares` some subjects come several times in a call, and others do not come.
    """

    async def add(mine: Session) -> None:
        rng = random.Random(seed)
        for turn in range(rounds):
            subjects = rng.choices(SUBJECTS, k=len(SUBJECTS)) if shares else rng.sample(SUBJECTS, len(SUBJECTS))
            done = await kind.add(mine, [make(rng, subject, turn) for subject in subjects])

            assert len(subjects) == len(done)

    return add


def worker(number: int, rounds: int) -> Work:
    """Work that claims jobs, stores steps, and ends them in each of the ways."""

    async def drain(mine: Session) -> None:
        rng = random.Random(number)
        for turn in range(rounds):
            claims = await fetch(mine, rng.randint(1, 20), worker=number, token=turn)
            for claim in claims[::3]:
                await store(mine, claim, f"{number} {turn}", worker=number)
            half = len(claims) // 2
            await complete(mine, claims[:half], worker=number)
            await change(mine, claims[half:], worker=number, attempts=rng.choice((0, 1, 32767)))
            await settle_rest(mine, claims, worker=number, done=True)
            if turn % 10 == 0:
                await mine.run("rescue_jobs", THOROUGH, None)
                await mine.run("prune_steps", 0, 100)

    return drain


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_batches_of_the_same_keys_in_opposite_orders(dsn: str, counted: Session, kind: Kind) -> None:
    """In graphile-worker seven transactions a second succeed, the others get 40P01."""
    await at_once(dsn, counted.schema, *(adder(kind, kind.alike, seed, kind.rounds[0]) for seed in range(4)))

    assert await counted.value(kind.finds)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_batches_of_every_form_with_new_names(dsn: str, counted: Session, kind: Kind, shares: bool) -> None:
    """Names are stored once the keys are held, all at once, those of later waves too."""
    works = (adder(kind, kind.anything, seed, kind.rounds[1], shares=shares) for seed in range(4))
    await at_once(dsn, counted.schema, *works)

    assert 0 < await counted.value("select count(key) from asyncq._jobs") <= len(SUBJECTS)
    assert [] == await counted.rows("select * from asyncq.violations()")


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_batches_beside_workers_that_drain_and_others_that_change_jobs(
    dsn: str, counted: Session, kind: Kind, is_long: bool
) -> None:
    """Workers skip what is held; adds, removals and administration wait for it: in one order."""
    rounds = kind.rounds[2 if is_long else 1]
    await at_once(
        dsn,
        counted.schema,
        *(adder(kind, kind.anything, seed, rounds, shares=bool(seed)) for seed in range(2)),
        *(worker(number, 2 * rounds) for number in (1, 2)),
        *kind.others(rounds),
    )
    await counted.run("rescue_jobs", THOROUGH, None)

    assert await counted.value("select count(key) = count(distinct key) from asyncq._jobs")
    assert [] == await counted.rows("select * from asyncq.violations()")

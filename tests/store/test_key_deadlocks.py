"""One call never deadlocks with another, nor with the workers: all lock key locks, jobs and names in one order."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from asyncq.testing import temporary_schema
from tests.support.example_program import fresh_database
from tests.support.jobs import change, complete, fetch
from tests.support.keyed import MODES, Spec, add_all
from tests.support.session import Session, session

THOROUGH = True

KEYS = [f"k{i}" for i in range(30)]
DEADLOCKS = "select deadlocks from pg_catalog.pg_stat_database where datname = current_database()"


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


async def at_once(dsn: str, schema: str, *works: Callable[[Session], Awaitable[object]]) -> None:
    """Do several works at once, each in a session of its own."""

    async def do(work: Callable[[Session], Awaitable[object]]) -> None:
        # A deadlock is found as soon as it is there.
        async with session(dsn, schema, deadlock_timeout="20ms") as mine:
            await work(mine)

    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(do, work)


def adder(
    seed: int, rounds: int, make: Callable[[random.Random, str, int], Spec], *, doubled: bool = False
) -> Callable[[Session], Awaitable[None]]:
    """Work that adds all keys in one call, in another order in each round."""

    async def add(mine: Session) -> None:
        rng = random.Random(seed)
        for turn in range(rounds):
            keys = rng.choices(KEYS, k=len(KEYS)) if doubled else rng.sample(KEYS, len(KEYS))
            done = await add_all(mine, [make(rng, key, turn) for key in keys])

            assert len(keys) == len(done)

    return add


def worker(number: int, rounds: int) -> Callable[[Session], Awaitable[None]]:
    """Work that claims jobs and ends them in each of the ways."""

    async def drain(mine: Session) -> None:
        rng = random.Random(number)
        for turn in range(rounds):
            claims = await fetch(mine, rng.randint(1, 20), worker=number, token=turn)
            half = len(claims) // 2
            await complete(mine, claims[:half], worker=number)
            await change(mine, claims[half:], worker=number, attempts=rng.choice((0, 1, 32767)))
            if turn % 10 == 0:
                await mine.run("rescue_jobs", THOROUGH)

    return drain


async def test_batches_of_the_same_keys_in_opposite_orders(dsn: str, counted: Session) -> None:
    """graphile-worker: seven transactions a second, the others 40P01."""

    def replace(_rng: random.Random, key: str, _turn: int) -> Spec:
        return Spec(key=key, payload="[1]")

    await at_once(dsn, counted.schema, *(adder(seed, 40, replace) for seed in range(4)))

    assert [4 * 40] * len(KEYS) == await counted.values("select json_array_length(payload) from asyncq._jobs")


def anything(rng: random.Random, key: str, turn: int) -> Spec:
    """A spec of a random mode, with names that are new to most who use them."""
    name = f"n{turn * 5 + rng.randrange(10)}"
    return Spec(
        name, queue=rng.choice((None, name)), key=rng.choice((key, key, None)), mode=rng.choice(MODES), payload="[1]"
    )


@pytest.mark.parametrize("doubled", [False, True])
async def test_batches_with_new_names_in_every_mode(dsn: str, counted: Session, doubled: bool) -> None:
    """Names are stored once the keys are held, all at once, those of later waves too."""
    await at_once(dsn, counted.schema, *(adder(seed, 25, anything, doubled=doubled) for seed in range(4)))

    assert 0 < await counted.value("select count(*) from asyncq._jobs where key is not null") <= len(KEYS)


@pytest.mark.parametrize("rounds", [25, pytest.param(400, marks=pytest.mark.slow)])
async def test_batches_beside_workers_that_drain_and_callers_that_remove(
    dsn: str, counted: Session, rounds: int
) -> None:
    """Workers skip what is held, adds and removals wait for it: in one order."""

    async def remove(mine: Session) -> None:
        rng = random.Random()
        for _ in range(4 * rounds):
            await mine.rows("select asyncq.remove_job($1)", rng.choice(KEYS))

    async def remove_and_add(mine: Session) -> None:
        """In one transaction: the key lock comes first in both."""
        rng = random.Random()
        for _ in range(2 * rounds):
            key = rng.choice(KEYS)
            async with mine.connection.transaction():
                await mine.rows("select asyncq.remove_job($1)", key)
                await add_all(mine, [Spec(key=key)])

    await at_once(
        dsn,
        counted.schema,
        *(adder(seed, rounds, anything, doubled=bool(seed)) for seed in range(2)),
        *(worker(number, 2 * rounds) for number in (1, 2)),
        remove,
        remove_and_add,
    )
    await counted.run("rescue_jobs", THOROUGH)

    assert await counted.value("select count(key) = count(distinct key) from asyncq._jobs")

"""A job that waits for many starts once, after all of them, although workers and the server are killed meanwhile."""

import random

import pytest

from asyncq import Client, JobSpec
from asyncq.store.statements import render
from tests.crash.counting import create_ledger
from tests.crash.test_exactly_once import SCHEMA, SEED, Killed, world
from tests.support.laws import LAWS
from tests.support.waiting import wait_until

CHILDREN = 1500
KILLS = ["worker"] * 5 + ["connection"] * 3 + ["server"]
LAST = "insert into {0}.ledger values ('last', 0, 0)"
COUNT = "select count from {0}.ledger where task = 'last'"
OPEN = "select count(*) from {0}._all_jobs()"


async def add_fan_out(killed: Killed) -> None:
    """Add the children and the job that waits for them, in one transaction."""
    children = [JobSpec(task="once", payload=f'{{"account": {number % 40}}}') for number in range(CHILDREN)]
    async with killed.connected() as db, Client(killed.dsn, schema=SCHEMA) as client:
        await create_ledger(db, SCHEMA)
        await db.execute(LAST.format(SCHEMA))
        async with db.transaction():
            added = await client.add_jobs(children, connection=db)
            await client.add_job("last", after=added, connection=db)


async def wait_for_less(killed: Killed, jobs: int) -> None:
    """Wait until at most so many jobs are left."""

    async def is_less() -> bool:
        ((left,),) = await killed.look(OPEN.format(SCHEMA))
        return left <= jobs

    await wait_until(is_less, description=f"at most {jobs} jobs to be left", limit_s=60)


async def kill(killed: Killed, rng: random.Random) -> None:
    """Kill all that the list names, in any order; each kill hits work again."""
    for number, name in enumerate(rng.sample(KILLS, len(KILLS))):
        await wait_for_less(killed, CHILDREN - 100 * number)
        await {"worker": killed.kill_worker, "connection": killed.kill_connection, "server": killed.kill_server}[name]()


@pytest.mark.timeout(300)
@pytest.mark.crash
async def test_a_fan_out_ends_once_over_kills() -> None:
    """The sum that it sees is that of all children, and it is added once."""
    async with world(SEED) as killed:
        await add_fan_out(killed)
        await kill(killed, random.Random(SEED))
        await wait_for_less(killed, 0)
        ((counted,),) = await killed.look(COUNT.format(SCHEMA))
        broken = await killed.look(render(LAWS, SCHEMA))

    assert CHILDREN == counted
    assert [] == [tuple(row) for row in broken]
    assert KILLS.count("worker") == killed.hits["worker"]
